import { type ReactNode, useSyncExternalStore } from 'react';

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly undo: (() => void) | null;
}

let toasts: readonly Toast[] = [];
let nextId = 1;
const watchers = new Set<() => void>();

function show(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}

const drop = (id: number): void => show(toasts.filter((each) => each.id !== id));

/** Says something for some seconds, without taking the focus. `undo` is offered for `undoMs`. */
export function toast(text: string, undo: (() => void) | null = null): void {
  const id = nextId++;
  show([...toasts.slice(-2), { id, text, undo }]);
  if (undo === null) setTimeout(drop, shownMs, id);
  else setTimeout(drop, undoMs, id);
}

const shownMs = 6_000;
/** The service takes an answer back for 5 s; the last half second is for the way there. */
const undoMs = 4_500;

export function Toasts(): ReactNode {
  const shown = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, text, undo }) => (
        <div key={id} className="toast row between">
          <span>{text}</span>
          {undo === null ? null : (
            <button
              type="button"
              className="button"
              onClick={() => {
                drop(id);
                undo();
              }}
            >
              Undo
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
