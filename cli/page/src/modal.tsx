import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface ModalProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons beside "Close". */
  readonly buttons?: ComponentChildren;
  readonly closeText?: string;
}

/** A dialog over the page. Esc closes it, and the focus goes back to where it was. */
export function Modal({ title, onClose, children, buttons, closeText = "Close" }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <div>
        <h2 id={titleId}>{title}</h2>
        {children}
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            {closeText}
          </button>
          {buttons}
        </div>
      </div>
    </dialog>
  );
}
