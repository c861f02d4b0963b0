import type { Answer, Call } from './http-caller.ts';

/** To the thread: a call, or the end of one that is given up. */
export type ToCaller =
  | { readonly kind: 'call'; readonly id: number; readonly call: Call }
  | { readonly kind: 'cancel'; readonly id: number };

/**
 * From the thread, once for each call that was not cancelled, and perhaps for one that was. It reads no bytes
 * of the call any more: where it failed, its connection is closed. The class of an error does not travel
 * between threads, nor does what is attached to it.
 */
export type FromCaller =
  | { readonly kind: 'answered'; readonly id: number; readonly answer: Answer }
  | { readonly kind: 'failed'; readonly id: number; readonly message: string; readonly code: string | null };
