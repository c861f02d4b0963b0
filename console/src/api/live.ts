import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { AgentTrustError, type Mode } from './client.ts';

/** `live`: changes are pushed. `polling`: there is a connection and no push. `offline`: there is none. */
export type Connection = 'live' | 'polling' | 'offline';

/** Between two tries to connect, in milliseconds; each further one doubles, up to the longest. */
const pauseMs = { first: 1_000, longest: 30_000 };
/** A push that says nothing for so long is gone: the service sends a heartbeat much more often. */
const silenceMsMax = 45_000;

/** Which queries are out of date after an event of this kind, by the beginnings of their keys. */
const affected: Readonly<Record<string, readonly (readonly string[])[]>> = {
  approval: [['approvals'], ['standing-approvals'], ['totals']],
  gate: [['gates'], ['standing-approvals'], ['catalogs'], ['names', 'gates'], ['totals']],
  mcp_pin: [['mcp-pins']],
  passport: [['passports'], ['names', 'passports'], ['totals']],
  revocation: [['passports'], ['totals']],
  record: [
    ['attestations'],
    ['outcomes'],
    ['statistics'],
    ['usage'],
    ['standing-approvals'],
    ['gates', 'one'],
  ],
  delivery: [['webhooks']],
  sidecar: [['sidecars'], ['ready']],
  // Events may be missing, or the service ends the stream.
  reset: [[]],
  closed: [['session']],
};

let connection: Connection = 'polling';
const watchers = new Set<() => void>();

function setConnection(next: Connection): void {
  if (next === connection) return;
  connection = next;
  for (const watcher of watchers) watcher();
}

const watch = (watcher: () => void): (() => void) => {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
};

/** The state of the connection, for the page to show. */
export const useConnection = (): Connection => useSyncExternalStore(watch, () => connection);

/** End of the time with at most one poll a minute, because the plan limit is used up. */
let frugalUntilMs = 0;

/** Factor of the pauses for plans with few requests: 30 and 120 a minute. */
const patience: Readonly<Record<string, number>> = { free: 6, pro: 2 };
let patienceOfPlan = 1;

/** From now on queries ask as often as this plan can bear. */
export const pollForPlan = (plan: string): void => {
  patienceOfPlan = patience[plan] ?? 1;
};

/** How often a query asks again: seldom while changes are pushed, often without. */
export const pollMs =
  (often = 10_000): (() => number) =>
  () =>
    patienceOfPlan * (connection === 'live' || Date.now() < frugalUntilMs ? 60_000 : often);

/**
 * Follows `GET /v1/events` until the returned function is called, and marks what changed as out of date. Not
 * with EventSource, which can send no header and so cannot say which mode it is about.
 */
export function followEvents(client: QueryClient, mode: Mode): () => void {
  const stopped = new AbortController();
  const pending = new Set<readonly string[]>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Many records may come at once; one reload in half a second is enough.
  const changed = (type: string): void => {
    for (const queryKey of affected[type] ?? []) pending.add(queryKey);
    timer ??= setTimeout(() => {
      timer = undefined;
      for (const queryKey of pending) void client.invalidateQueries({ queryKey });
      pending.clear();
    }, 500);
  };
  void keepFollowing(mode, stopped.signal, changed, () => void client.invalidateQueries());
  return () => {
    stopped.abort();
    clearTimeout(timer);
  };
}

async function keepFollowing(
  mode: Mode,
  signal: AbortSignal,
  changed: (type: string) => void,
  connected: () => void,
): Promise<void> {
  let pause = pauseMs.first;
  let isFirst = true;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const giveUp = (): void => attempt.abort();
    // A connection that is open when the network goes may look alive for minutes.
    window.addEventListener('offline', giveUp);
    try {
      await readEvents(mode, AbortSignal.any([signal, attempt.signal]), giveUp, changed, () => {
        pause = pauseMs.first;
        setConnection('live');
        // What happened while nothing was pushed.
        if (!isFirst) connected();
        isFirst = false;
      });
    } catch (error) {
      if (signal.aborted) return;
      setConnection(error instanceof TypeError || !navigator.onLine ? 'offline' : 'polling');
    } finally {
      window.removeEventListener('offline', giveUp);
    }
    if (connection === 'live') setConnection('polling');
    await untilNextTry(pause * (1 + Math.random() / 4));
    pause = Math.min(pause * 2, pauseMs.longest);
  }
}

/** Waits so many milliseconds, and no longer than until the network is back. */
const untilNextTry = (waitMs: number): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      window.removeEventListener('online', done);
      resolve();
    };
    const timer = setTimeout(done, waitMs);
    window.addEventListener('online', done);
  });

async function readEvents(
  mode: Mode,
  signal: AbortSignal,
  giveUp: () => void,
  changed: (type: string) => void,
  connected: () => void,
): Promise<void> {
  const answer = await fetch('/v1/events', {
    headers: { accept: 'text/event-stream', 'x-agent-trust-mode': mode },
    signal,
  });
  if (!answer.ok || answer.body === null) throw new Error(`HTTP ${answer.status}`);
  connected();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const timer = setTimeout(giveUp, silenceMsMax);
    const next = await reader.read().finally(() => clearTimeout(timer));
    if (next.done) return;
    const blocks = (text + next.value).split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const type = typeOf(block);
      if (type !== null) changed(type);
    }
  }
}

/** Null: a comment, such as a heartbeat. */
function typeOf(block: string): string | null {
  const lines = block.split('\n').filter((line) => line.startsWith('data:'));
  const data = lines.map((line) => line.slice(5).trimStart()).join('\n');
  if (data === '') return null;
  try {
    const { type } = JSON.parse(data) as { type?: unknown };
    return typeof type === 'string' ? type : null;
  } catch {
    return null;
  }
}

/** Updates the state of the connection after a call. */
export function noteOutcome(error: unknown): void {
  if (error instanceof AgentTrustError && error.code === 'rate_limited') frugalUntilMs = Date.now() + 120_000;
  const isLost = error instanceof AgentTrustError && error.http_status === null;
  if (isLost) setConnection('offline');
  else if (connection === 'offline') setConnection('polling');
}
