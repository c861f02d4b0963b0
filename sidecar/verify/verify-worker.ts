import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { checkTask, rememberVerifiers } from './verify-task.ts';

// The whole program of a verification thread: bytes in, bits out. It has no settings, no keys of its own and
// no network, so a flaw in an engine exposes nothing.
const verifierOf = rememberVerifiers(chooseEd25519());

/** Called by the pool with the buffer of `packTask`. */
export const verify = (packed: Uint8Array): number => checkTask(packed, verifierOf);
