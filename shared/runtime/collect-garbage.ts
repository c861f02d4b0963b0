import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect: (options?: { readonly type: 'minor' }) => void = runInNewContext('gc');

/**
 * A full garbage collection. V8 collects the old generation only when the heap has about doubled, which may
 * take days in a program with young garbage. It stops the process, for 50 ms with a heap of 100 MB, so it is
 * for programs that have just dropped much more than they keep.
 *
 * Node.js has no API for it: the flag adds `gc` to contexts that are made after it was set.
 */
export const collectGarbage = (): void => collect();

/**
 * A collection of the young generation, as V8 makes many times a second. References from old garbage keep
 * young objects alive. Survivors of two collections become old.
 */
export const collectYoungGarbage = (): void => collect({ type: 'minor' });
