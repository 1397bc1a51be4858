import type { CheckpointRow, DamageInfo } from "../../src/ui/api-parts.js";
import { agoText, bytesText } from "../../src/words.js";
import { type BranchRow, branchRows } from "./branches.js";
import type { Comparison } from "./comparison.js";
import { formatRoute } from "./route.js";
import { StatusMark, shownStatus } from "./status.js";
import { StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";
import { timeText } from "./times.js";

interface CheckpointListProps {
  readonly taskId: string;
  /** Newest first. */
  readonly checkpoints: readonly CheckpointRow[];
  /** The records that can't be read. They are listed between the checkpoints, by their sequences. */
  readonly damage: readonly DamageInfo[];
  /** The id of the checkpoint that is selected in the timeline. */
  readonly selected: string | undefined;
  readonly comparison: Comparison;
  readonly nowMs: number;
  readonly onOpen: (checkpoint: CheckpointRow) => void;
}

/** A task's checkpoints, with their branches. */
export function CheckpointList({
  taskId,
  checkpoints,
  damage,
  selected,
  comparison,
  nowMs,
  onOpen,
}: CheckpointListProps) {
  const branches = branchRows(checkpoints);
  const isBranched = branches.some(({ column }) => column > 0);
  const width = 12 + 12 * Math.max(1, ...branches.map(({ column, past }) => 1 + Math.max(column, ...past)));
  return (
    <table class="branches">
      <thead>
        <tr>
          <th scope="col" colSpan={3}>
            Checkpoint
          </th>
          <th scope="col">What</th>
          <th scope="col" class="number when">
            Saved
          </th>
          <th scope="col" class="number size">
            Bytes
          </th>
        </tr>
      </thead>
      <tbody>
        {checkpoints.flatMap((checkpoint, index) => {
          const newer = checkpoints[index - 1]?.sequence ?? Number.POSITIVE_INFINITY;
          const { id, sequence, stage, label, status, createdAt, sizeBytes, kind, error, forkedFrom } = checkpoint;
          const branch = branches[index];
          return [
            ...unreadable(damage, sequence, newer).map((record) => (
              <Unreadable key={record.location} taskId={taskId} record={record} />
            )),
            <tr
              key={id}
              class="link"
              aria-current={id === selected ? "true" : undefined}
              onClick={(event) => {
                const isRow = !(event.target instanceof Element && event.target.closest("a, label"));
                if (isRow && getSelection()?.isCollapsed !== false) onOpen(checkpoint);
              }}
            >
              <td class="pick">
                <label>
                  <input
                    type="checkbox"
                    aria-label={`Mark @${sequence} to compare`}
                    checked={comparison.marked.some((point) => point.id === id)}
                    onChange={() => comparison.toggle(checkpoint)}
                  />
                </label>
              </td>
              <td class="graph" style={{ width: isBranched ? `${width}px` : 0 }}>
                {isBranched && branch && <Graph branch={branch} status={status} width={width} />}
              </td>
              <td>
                <a href={formatRoute({ view: "checkpoint", taskId, id })}>@{sequence}</a>
              </td>
              <td class="anywhere">
                {label !== undefined && (
                  <div>
                    <StoredText text={label} />
                  </div>
                )}
                {stage !== undefined && (
                  <div class={label === undefined ? "" : "small soft"}>
                    <StoredText text={stage} />
                  </div>
                )}
                {forkedFrom && (
                  <div class="small soft">
                    forked from{" "}
                    <a href={formatRoute({ view: "checkpoint", ...forkedFrom })}>
                      <StoredText text={taskName(forkedFrom.taskId)} />
                    </a>
                  </div>
                )}
                {error !== undefined && (
                  <div class="small verdict-text">
                    <StoredText text={error} />
                  </div>
                )}
                <div class="small soft">
                  {/* The task's status shows whether it runs now. */}
                  {status !== "running" && <StatusMark status={shownStatus(checkpoint)} />}
                  {kind === "transient" && " transient: retention rules don't count it"}
                  <span class="narrow-only">
                    {" "}
                    · {agoText(createdAt, nowMs)} · {bytesText(sizeBytes)}
                  </span>
                </div>
              </td>
              <td class="number when soft" title={`${timeText(createdAt)} UTC`}>
                {agoText(createdAt, nowMs)}
              </td>
              <td class="number size">{bytesText(sizeBytes)}</td>
            </tr>,
          ];
        })}
        {unreadable(damage, 0, checkpoints.at(-1)?.sequence ?? Number.POSITIVE_INFINITY).map((record) => (
          <Unreadable key={record.location} taskId={taskId} record={record} />
        ))}
      </tbody>
    </table>
  );
}

/** Returns the damaged records between two checkpoints, newest first. */
function unreadable(damage: readonly DamageInfo[], older: number, newer: number): readonly DamageInfo[] {
  return damage
    .filter(({ sequence = -1 }) => sequence > older && sequence < newer)
    .sort((a, b) => (b.sequence ?? 0) - (a.sequence ?? 0));
}

function Unreadable({ taskId, record: { id, sequence, reason } }: { taskId: string; record: DamageInfo }) {
  return (
    <tr class="damaged">
      <td />
      <td class="graph" />
      <td>
        {id === undefined ? `@${sequence}` : <a href={formatRoute({ view: "checkpoint", taskId, id })}>@{sequence}</a>}
      </td>
      <td class="anywhere" colSpan={3}>
        <StatusMark status="damaged" /> <strong class="bad">@{sequence} can't be read</strong>
        <div class="small soft">
          <StoredText text={reason} />
        </div>
      </td>
    </tr>
  );
}

/** The middle of a row's first line, in px. */
const DOT = 18;

function Graph({
  branch,
  status,
  width,
}: {
  readonly branch: BranchRow;
  readonly status: CheckpointRow["status"];
  readonly width: number;
}) {
  const x = (column: number) => 12 + column * 12;
  const own = x(branch.column);
  return (
    <svg width={width} aria-hidden="true" class={status}>
      {branch.past.map((column) => (
        <line key={column} class="branch-line" x1={x(column)} x2={x(column)} y1="0" y2="100%" />
      ))}
      {branch.joins.map((column) => (
        <path
          key={column}
          class="branch-line"
          d={`M${x(column)} 0C${x(column)} ${DOT / 2} ${own} ${DOT / 2} ${own} ${DOT}`}
        />
      ))}
      {branch.hasChild && <line class="branch-line" x1={own} x2={own} y1="0" y2={DOT} />}
      {branch.hasParent && <line class="branch-line" x1={own} x2={own} y1={DOT} y2="100%" />}
      <circle class="branch-dot" cx={own} cy={DOT} r="4.5" />
    </svg>
  );
}
