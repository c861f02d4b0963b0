import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { checkTask, rememberVerifiers } from './verify-task.ts';

// This file is the whole program of a verification thread: it gets bytes and answers bits. It has no
// settings, no keys of its own and no way to the network, so that a flaw in an engine finds nothing to take.
const verifierOf = rememberVerifiers(chooseEd25519());

/** Called by the pool with the buffer of `packTask`. */
export const verify = (packed: Uint8Array): number => checkTask(packed, verifierOf);
