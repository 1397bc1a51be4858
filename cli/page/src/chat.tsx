import { useEffect, useRef } from "preact/hooks";
import type { Chat, ChatMessage } from "../../src/ui/api-parts.js";
import { usageText } from "../../src/usage.js";
import { counted } from "../../src/words.js";
import { StoredText } from "./stored-text.js";
import { Part } from "./value.js";

/** Shows the messages of a chat, scrolled to the newest one. Tool calls and long results are folded. */
export function ChatView({ chat: { messages, total, usage } }: { readonly chat: Chat }) {
  const list = useRef<HTMLElement>(null);
  useEffect(() => {
    if (list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [total]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls is reached by the keyboard.
    <section class="chat" ref={list} tabIndex={0} aria-label="Messages">
      {total > messages.length && (
        <p class="small soft">The state has {counted(total - messages.length, "earlier message")}.</p>
      )}
      {messages.map((message, index) => (
        <Message key={total - messages.length + index} message={message} />
      ))}
      {usage && <p class="small soft">In all {usageText(usage)}</p>}
    </section>
  );
}

function Message({ message: { role, name, text, calls } }: { readonly message: ChatMessage }) {
  const isTool = role === "tool" || role === "function";
  return (
    <article class={`message ${role === "human" || role === "user" ? "human" : isTool ? "tool" : ""}`}>
      <p class="small soft">
        <StoredText text={name === undefined ? role : `${role} · ${name}`} />
      </p>
      {isTool ? (
        <Part title="Result" text={text} />
      ) : (
        text !== "" && (
          <p>
            <StoredText text={text} hasLines />
          </p>
        )
      )}
      {calls.map((call, index) => (
        <details key={index} class="step">
          <summary>
            calls{" "}
            <strong>
              <StoredText text={call.name} />
            </strong>
          </summary>
          <pre>
            <StoredText text={call.args} hasLines />
          </pre>
        </details>
      ))}
    </article>
  );
}
