import { useEffect } from "preact/hooks";
import type { Command } from "../../src/ui/api-parts.js";
import type { TaskRow } from "../../src/ui/api-tasks.js";
import { ChatView } from "./chat.js";
import { CommandList } from "./commands.js";
import { useQuery } from "./queries.js";
import { StoredText } from "./stored-text.js";

/** Shows the questions of a LangGraph thread, and the call that continues the thread. */
export function ThreadQuestions({
  asks,
  commands,
}: {
  readonly asks: readonly string[];
  readonly commands: readonly Command[];
}) {
  const call = commands.filter(({ action }) => action === "continue");
  if (asks.length === 0 && call.length === 0) return null;
  return (
    <section class="problem paused" aria-label="How to continue">
      {asks.length > 0 && <h2>It asks</h2>}
      {asks.map((text) => (
        <p class="mono" key={text}>
          <StoredText text={text} hasLines />
        </p>
      ))}
      <CommandList commands={call} />
    </section>
  );
}

/** Shows the messages of a LangGraph thread at its newest checkpoint; nothing if its state has no messages. */
export function ThreadChat({ taskId, newest }: { readonly taskId: string; readonly newest: TaskRow["newest"] }) {
  const { answer, reload } = useQuery("checkpoint", { taskId });
  useEffect(reload, [newest?.sequence]);
  return answer?.chat ? <ChatView chat={answer.chat} /> : null;
}
