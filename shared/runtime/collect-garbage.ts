import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect: (options?: { readonly type: 'minor' }) => void = runInNewContext('gc');

/**
 * Frees at once what nothing refers to. V8 looks for old garbage only when the heap has grown by about as
 * much again, which may take days in a program whose garbage is young. All of the process stands still for
 * it, 50 ms with a heap of 100 MB, so this is for programs that have just let go of much more than they keep.
 *
 * Node.js has no call for it: what the flag adds is found in contexts that are made after it was set.
 */
export const collectGarbage = (): void => collect();

/**
 * What is young and nothing refers to is gone: what V8 does many times a second. An object counts as referred
 * to by an old one even where that is garbage itself. What survives this twice is old.
 */
export const collectYoungGarbage = (): void => collect({ type: 'minor' });
