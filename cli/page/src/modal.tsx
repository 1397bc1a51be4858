import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface ModalProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons next to "Close". */
  readonly buttons?: ComponentChildren;
  readonly closeText?: string;
  /** Called when Enter is pressed in a field. */
  readonly onSubmit?: () => void;
  /** If it returns true, the view's heading gets the focus: the earlier element may be gone, or mean something else. */
  readonly isDone?: () => boolean;
}

/** A dialog over the page. Esc closes it, and the focus returns to the element that had it. */
export function Modal(props: ModalProps) {
  const { title, onClose, children, buttons, closeText = "Close", onSubmit, isDone = () => false } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const latest = useRef(isDone);
  latest.current = isDone;
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (latest.current() || !before?.isConnected) focusHeading();
      else if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        <h2 id={titleId}>{title}</h2>
        {children}
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            {closeText}
          </button>
          {buttons}
        </div>
      </form>
    </dialog>
  );
}

function focusHeading(): void {
  const heading = document.querySelector("main h1");
  if (!(heading instanceof HTMLElement)) return;
  heading.tabIndex = -1;
  heading.focus();
}
