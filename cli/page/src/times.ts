import { DAY, HOUR, MINUTE, SECOND } from "../../src/words.js";

/** Formats a duration: `840 ms`, `3.1 s`, `4 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function durationText(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${Number((ms / SECOND).toFixed(1))} s`;
  const [[big, bigMs], [small, smallMs]] =
    ms < HOUR
      ? ([
          ["min", MINUTE],
          ["s", SECOND],
        ] as const)
      : ms < DAY
        ? ([
            ["h", HOUR],
            ["min", MINUTE],
          ] as const)
        : ([
            ["d", DAY],
            ["h", HOUR],
          ] as const);
  const rest = Math.floor((ms % bigMs) / smallMs);
  return `${Math.floor(ms / bigMs)} ${big}${rest === 0 ? "" : ` ${rest} ${small}`}`;
}

/** Formats the time since the beginning: `+0 ms`, `+1.07 s`, `+2 h 10 min`. */
export function offsetText(ms: number): string {
  return `+${ms >= SECOND && ms < 10 * SECOND ? `${Number((ms / SECOND).toFixed(2))} s` : durationText(ms)}`;
}

/** Formats a date as `2026-11-21 10:00:05.120`, in UTC as in the commands' output. An invalid date stays unchanged. */
export function timeText(isoDate: string): string {
  return isoDate.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z$/, "$1 $2");
}
