import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ErrorInfo, RunnerInfo } from "../../src/ui/api-parts.js";
import { errorInfo } from "./api.js";
import { Modal } from "./modal.js";
import { Problem } from "./problem.js";
import { StoredText } from "./stored-text.js";

interface QuestionProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly confirmText: string;
  readonly closeText?: string;
  readonly isDangerous?: boolean;
  readonly isReady?: boolean;
  /** The task's runner. If a process runs the task, the change needs `force`. */
  readonly runner?: RunnerInfo | undefined;
  readonly onConfirm: Confirm;
  /** Several buttons instead of one. Each confirms in its own way, and Enter in a field doesn't confirm. */
  readonly choices?: readonly { readonly text: string; readonly onConfirm: Confirm }[] | undefined;
  readonly onClose: () => void;
}

type Confirm = (options: { readonly force?: boolean }) => Promise<void>;

/** Asks before something is changed, and shows why it failed. */
export function Question(props: QuestionProps) {
  const { title, children, confirmText, closeText = "Cancel", isDangerous = false, isReady = true } = props;
  const { runner, onConfirm, onClose, choices } = props;
  const [isForced, setIsForced] = useState(false);
  const isHeld = runner?.state === "held";

  const isDone = useRef(false);
  const { isBusy, error, run } = useConfirm(() => {
    isDone.current = true;
    onClose();
  });
  const canConfirm = !isBusy && isReady && (!isHeld || isForced);
  const content = useRef<HTMLDivElement>(null);

  useEffect(() => {
    // After a failure, the focus returns to the field to correct.
    if (error) content.current?.querySelector<HTMLElement>("input, textarea")?.focus();
  }, [error]);

  const confirm = (choice = onConfirm) => {
    if (canConfirm) run(() => choice(isForced ? { force: true } : {}));
  };

  return (
    <Modal
      title={title}
      onClose={onClose}
      closeText={closeText}
      onSubmit={() => choices === undefined && confirm()}
      isDone={() => isDone.current}
      buttons={
        choices?.map(({ text, onConfirm: choice }, index) => (
          <button
            type="button"
            class={index === 0 ? "primary" : ""}
            key={text}
            disabled={!canConfirm}
            onClick={() => confirm(choice)}
          >
            <StoredText text={text} />
          </button>
        )) ?? (
          <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={!canConfirm}>
            {confirmText}
          </button>
        )
      }
    >
      <div class="content" ref={content}>
        {children}
        {isHeld && (
          <label class="check">
            <input type="checkbox" checked={isForced} onChange={(event) => setIsForced(event.currentTarget.checked)} />
            <span>
              Do it even though <StoredText text={runner.holder} /> runs the task and may lose work.
            </span>
          </label>
        )}
        {error && (
          <div role="alert">
            <Problem title="That failed" error={error} />
          </div>
        )}
      </div>
    </Modal>
  );
}

/** Runs one change at a time, and keeps its error. @param onDone - Called when the change succeeded. */
export function useConfirm(onDone: () => void): {
  readonly isBusy: boolean;
  readonly error: ErrorInfo | undefined;
  readonly run: (change: () => Promise<void>) => void;
} {
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<ErrorInfo>();
  const run = (change: () => Promise<void>) => {
    setIsBusy(true);
    setError(undefined);
    change().then(onDone, (failure: unknown) => {
      setError(errorInfo(failure));
      setIsBusy(false);
    });
  };
  return { isBusy, error, run };
}
