import { type ReactNode, type RefObject, type SyntheticEvent, useId, useLayoutEffect, useRef } from 'react';

/**
 * Shows the dialog of this ref as a modal one while its component is there. It is closed before React takes
 * it out of the document: only then does the browser give the focus back to what had it.
 */
export function useModal(): RefObject<HTMLDialogElement | null> {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return dialog;
}

/**
 * A modal dialog of the browser, which keeps the focus inside and gives it back. Escape closes it unless
 * `isLocked`, as while a secret is shown that cannot be shown again.
 */
export function Dialog({
  title,
  children,
  onClose,
  className = '',
  isLocked = false,
}: {
  readonly title: string;
  readonly children: ReactNode;
  onClose(): void;
  readonly className?: string;
  readonly isLocked?: boolean;
}): ReactNode {
  const dialog = useModal();
  const id = useId();
  const cancel = (event: SyntheticEvent) => {
    event.preventDefault();
    if (!isLocked) onClose();
  };
  return (
    <dialog ref={dialog} aria-labelledby={id} className={className} onCancel={cancel}>
      <div className="stack">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** The buttons under a form in a dialog. */
export function DialogActions({
  onCancel,
  submit,
  isBusy,
  isDanger = false,
}: {
  onCancel(): void;
  readonly submit: string;
  readonly isBusy: boolean;
  readonly isDanger?: boolean;
}): ReactNode {
  return (
    <div className="actions">
      <button type="button" className="button" onClick={onCancel}>
        Cancel
      </button>
      <button type="submit" className={`button ${isDanger ? 'danger' : 'primary'}`} disabled={isBusy}>
        {isBusy ? 'Working…' : submit}
      </button>
    </div>
  );
}
