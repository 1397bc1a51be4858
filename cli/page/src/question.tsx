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
  /** A process runs the task: the change needs `force`. */
  readonly runner?: RunnerInfo | undefined;
  readonly onConfirm: (options: { readonly force?: boolean }) => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before something is changed, and shows why it failed. */
export function Question(props: QuestionProps) {
  const { title, children, confirmText, closeText = "Cancel", isDangerous = false, isReady = true } = props;
  const { runner, onConfirm, onClose } = props;
  const [isBusy, setIsBusy] = useState(false);
  const [isForced, setIsForced] = useState(false);
  const [error, setError] = useState<ErrorInfo>();
  const isHeld = runner?.state === "held";

  const canConfirm = !isBusy && isReady && (!isHeld || isForced);
  const isDone = useRef(false);
  const content = useRef<HTMLDivElement>(null);

  useEffect(() => {
    // A failed question is mended where it was answered.
    if (error) content.current?.querySelector<HTMLElement>("input, textarea")?.focus();
  }, [error]);

  const confirm = async () => {
    if (!canConfirm) return;
    setIsBusy(true);
    setError(undefined);
    try {
      await onConfirm(isForced ? { force: true } : {});
      isDone.current = true;
      onClose();
    } catch (failure) {
      setError(errorInfo(failure));
      setIsBusy(false);
    }
  };

  return (
    <Modal
      title={title}
      onClose={onClose}
      closeText={closeText}
      onSubmit={() => void confirm()}
      isDone={() => isDone.current}
      buttons={
        <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={!canConfirm}>
          {confirmText}
        </button>
      }
    >
      <div class="content" ref={content}>
        {children}
        {isHeld && (
          <label class="check">
            <input type="checkbox" checked={isForced} onChange={(event) => setIsForced(event.currentTarget.checked)} />
            <span>
              Do it although <StoredText text={runner.holder} /> runs the task. It may lose work.
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
