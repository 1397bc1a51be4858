import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** A question that is open now, at most one. */
export function useAction(): {
  readonly question: ComponentChildren;
  readonly ask: (question: (close: () => void) => ComponentChildren) => void;
} {
  const [question, setQuestion] = useState<(close: () => void) => ComponentChildren>();
  const close = () => setQuestion(undefined);
  return { question: question?.(close), ask: (next) => setQuestion(() => next) };
}
