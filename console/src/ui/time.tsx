import { type ReactNode, useSyncExternalStore } from 'react';
import { fromNow, localTime, utcTime } from './format.ts';

/** One timer for all times that a page shows. */
let nowMs = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const watchers = new Set<() => void>();

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= setInterval(() => {
    nowMs = Date.now();
    for (const each of watchers) each();
  }, 1_000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Unix milliseconds, once a second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => nowMs);
}

/** A moment in the reader's zone, in UTC when pointed at. */
export function Time({
  at,
  otherwise = 'never',
}: {
  readonly at: string | null | undefined;
  readonly otherwise?: string;
}): ReactNode {
  if (at === null || at === undefined) return <span className="soft">{otherwise}</span>;
  return (
    <time dateTime={at} title={utcTime(at)}>
      {localTime(at)}
    </time>
  );
}

/** How long ago, with both zones when pointed at. */
export function Ago({
  at,
  otherwise = 'never',
}: {
  readonly at: string | null | undefined;
  readonly otherwise?: string;
}): ReactNode {
  const now = useNow();
  if (at === null || at === undefined) return <span className="soft">{otherwise}</span>;
  return (
    <time dateTime={at} title={`${localTime(at)} (${utcTime(at)})`}>
      {fromNow(at, Math.max(now, 0))}
    </time>
  );
}

/** `4:05` until `at`; nothing once it is over. */
export function Countdown({ at }: { readonly at: string }): ReactNode {
  const seconds = Math.max(0, Math.ceil((Date.parse(at) - useNow()) / 1_000));
  if (seconds > 3_600) return <Ago at={at} />;
  const text = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  return (
    <time dateTime={at} title={utcTime(at)} role="timer">
      {text}
    </time>
  );
}
