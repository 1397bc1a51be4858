import type { FamilyAnswer, FamilyMember } from "../../src/ui/api-tasks.js";
import { counted } from "../../src/words.js";
import { formatRoute } from "./route.js";
import { StatusMark } from "./status.js";
import { StoredText } from "./stored-text.js";

interface FamilyProps {
  readonly family: FamilyAnswer;
  /** The task whose page shows the tree. */
  readonly taskId: string;
}

/** Shows where a task comes from, and its child runs and forks, as a tree. */
export function Family({ family: { members, more }, taskId }: FamilyProps) {
  if (members.length === 0) return null;
  return (
    <section class="card" aria-label="Related tasks">
      <header>
        <h2>Related tasks</h2>
      </header>
      <ol class="family">
        {members.map((member) => (
          <li
            key={member.taskId}
            aria-current={member.taskId === taskId ? "true" : undefined}
            style={{ "--depth": member.depth }}
          >
            <MemberLink member={member} isHere={member.taskId === taskId} />
            <span class="small soft anywhere">{describeLink(member)}</span>
            {member.forkedFrom && member.newest && (
              <a
                class="small"
                href={formatRoute({
                  view: "diff",
                  taskId: member.taskId,
                  from: member.forkedFrom.id,
                  to: member.newest.id,
                  fromTaskId: member.forkedFrom.taskId,
                })}
              >
                Compare with its origin
              </a>
            )}
          </li>
        ))}
      </ol>
      {more > 0 && <p class="empty">{counted(more, "more task")}</p>}
    </section>
  );
}

/** Links to a task, with its status. */
export function MemberLink({ member, isHere = false }: { readonly member: FamilyMember; readonly isHere?: boolean }) {
  const { taskId, name, status } = member;
  const text = <StoredText text={name} />;
  return (
    <>
      {status === undefined ? <span class="small soft">removed</span> : <StatusMark status={status} />}
      {isHere ? (
        <strong class="mono anywhere">{text}</strong>
      ) : (
        <a class="mono anywhere" href={formatRoute({ view: "task", taskId })}>
          {text}
        </a>
      )}
    </>
  );
}

/** Links to the task that a task comes from. */
export function SourceLink({ family, taskId }: FamilyProps) {
  const own = family.members.findIndex((member) => member.taskId === taskId);
  const [source, member] = [family.members[own - 1], family.members[own]];
  if (source === undefined || member === undefined) return null;
  return (
    <span>
      {member.forkedFrom ? "fork of " : "child run of "}
      <a href={formatRoute({ view: "task", taskId: source.taskId })}>
        <StoredText text={source.name} />
      </a>
    </span>
  );
}

/** Returns the child runs that began inside a step of a task. */
export function childrenOf(
  { members }: FamilyAnswer,
  taskId: string,
  step: { readonly title: string; readonly turn: number },
): readonly FamilyMember[] {
  return members.filter(
    ({ parent }) => parent?.taskId === taskId && parent.step === step.title && parent.turn === step.turn,
  );
}

function describeLink({ parent, forkedFrom }: FamilyMember) {
  if (forkedFrom) return "fork";
  if (parent === undefined) return null;
  return (
    <>
      child run
      {parent.step !== undefined && (
        <>
          {" in "}
          <StoredText text={parent.step} />
        </>
      )}
      {parent.turn > 1 && `, turn ${parent.turn}`}
    </>
  );
}
