import type { TaskRow } from "../../src/ui/api-tasks.js";
import { agoText, countText } from "../../src/words.js";
import { usePage } from "./page.js";
import { formatRoute } from "./route.js";
import { StatusMark } from "./status.js";
import { pictured, StoredText } from "./stored-text.js";
import { describePlace, describeReason, isBad } from "./task-peek.js";

interface RowProps {
  readonly task: TaskRow | undefined;
  readonly index: number;
  readonly isSelected: boolean;
  /** The task is chosen for an action. */
  readonly isPicked: boolean | undefined;
  readonly nowMs: number;
  readonly onPick: (taskId: string) => void;
  readonly onSelect: (index: number) => void;
  readonly onOpen: (task: TaskRow | undefined) => void;
}

export function Row({ task, index, isSelected, isPicked, nowMs, onPick, onSelect, onOpen }: RowProps) {
  const { session } = usePage();
  if (task === undefined) {
    return (
      <tr class="row" aria-rowindex={index + 2}>
        <td class="soft">…</td>
      </tr>
    );
  }
  const { taskId, name, newest, count, damage, lastAt = newest?.createdAt } = task;
  const place = describePlace(task, nowMs);
  const reason = describeReason(task, nowMs);
  return (
    <tr
      class="row link"
      aria-rowindex={index + 2}
      aria-current={isSelected ? "true" : undefined}
      onClick={(event) => {
        onSelect(index);
        if (!(event.target instanceof HTMLAnchorElement) && getSelection()?.isCollapsed !== false) onOpen(task);
      }}
    >
      {session.canWrite && (
        <td class="pick">
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={`Choose ${pictured(name)}`}
            checked={isPicked === true}
            onClick={(event) => event.stopPropagation()}
            onChange={() => onPick(taskId)}
          />
        </td>
      )}
      <td>
        <a
          class="task-name"
          href={formatRoute({ view: "task", taskId })}
          tabIndex={-1}
          title={pictured(name)}
          aria-label={pictured(name)}
        >
          <CutName name={name} />
        </a>
        <span class="task-more one-line">
          {lastAt !== undefined && `${agoText(lastAt, nowMs)} · `}
          <StoredText text={reason === "" ? place : reason} />
        </span>
      </td>
      <td>{damage.length > 0 ? <StatusMark status="damaged" /> : <StatusMark status={task.status} />}</td>
      <td class="stage">
        <span class="one-line" title={pictured(place)}>
          <StoredText text={place} />
        </span>
      </td>
      <td class="runner">
        <span class={`one-line ${isBad(task) ? "bad" : "soft"}`} title={pictured(reason)}>
          <StoredText text={reason} />
        </span>
      </td>
      <td class="number count">{countText(count)}</td>
      <td class="number when soft">{lastAt === undefined ? "not yet" : agoText(lastAt, nowMs)}</td>
    </tr>
  );
}

/** The length of a name's end, which is shown even if the name's middle is cut. */
const END_UNITS = 12;

/** A name that is cut in the middle if there isn't enough room, because names often differ at their ends. */
function CutName({ name }: { readonly name: string }) {
  const at = name.length > 2 * END_UNITS ? name.length - END_UNITS : name.length;
  return (
    <>
      <span class="one-line">
        <StoredText text={name.slice(0, at)} />
      </span>
      {at < name.length && (
        <span class="name-end">
          <StoredText text={name.slice(at)} />
        </span>
      )}
    </>
  );
}

export function Gap({ rows, rowHeight }: { readonly rows: number; readonly rowHeight: number }) {
  if (rows <= 0) return null;
  return (
    <tr class="gap">
      <td style={{ height: `${rows * rowHeight}px` }} />
    </tr>
  );
}
