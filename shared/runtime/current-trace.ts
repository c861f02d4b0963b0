import { AsyncLocalStorage } from 'node:async_hooks';
import type { TraceContext } from '../wire/api/trace-context.ts';

const current = new AsyncLocalStorage<TraceContext | null>();

/** Of the request that is being served. Null: it names none, or nothing is served here. */
export const currentTrace = (): TraceContext | null => current.getStore() ?? null;

/** `work`, and all that it starts, belongs to this trace. */
export const runInTrace = <T>(trace: TraceContext | null, work: () => T): T => current.run(trace, work);

/**
 * For what a request happens to start and others use too, such as a connection or a batch of several calls:
 * it belongs to no trace.
 */
export const runOutsideTraces = <T>(work: () => T): T =>
  currentTrace() === null ? work() : current.run(null, work);
