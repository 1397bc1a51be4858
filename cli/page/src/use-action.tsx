import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** Holds the open question; at most one is open. */
export function useAction(): {
  readonly question: ComponentChildren;
  readonly ask: (question: (close: () => void) => ComponentChildren) => void;
} {
  const [question, setQuestion] = useState<(close: () => void) => ComponentChildren>();
  const close = () => setQuestion(undefined);
  return { question: question?.(close), ask: (next) => setQuestion(() => next) };
}
