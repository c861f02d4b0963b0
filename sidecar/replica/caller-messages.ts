import type { Answer, Call } from './http-caller.ts';

/** To the thread: a call, or its cancellation. */
export type ToCaller =
  | { readonly kind: 'call'; readonly id: number; readonly call: Call }
  | { readonly kind: 'cancel'; readonly id: number };

/**
 * From the thread, once per call, and for a cancelled call at most once. The thread has stopped reading the
 * call's bytes: the connection of a failed call is closed. Neither the class nor the properties of an error
 * cross threads.
 */
export type FromCaller =
  | { readonly kind: 'answered'; readonly id: number; readonly answer: Answer }
  | { readonly kind: 'failed'; readonly id: number; readonly message: string; readonly code: string | null };
