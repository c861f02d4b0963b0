import { type ReactNode, useSyncExternalStore } from 'react';

interface Toast {
  readonly id: number;
  readonly text: string;
}

let toasts: readonly Toast[] = [];
let nextId = 1;
const watchers = new Set<() => void>();

function show(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}

/** Says something for some seconds, without taking the focus. */
export function toast(text: string): void {
  const id = nextId++;
  show([...toasts.slice(-2), { id, text }]);
  setTimeout(() => show(toasts.filter((each) => each.id !== id)), 6_000);
}

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
      {shown.map(({ id, text }) => (
        <div key={id} className="toast">
          {text}
        </div>
      ))}
    </div>
  );
}
