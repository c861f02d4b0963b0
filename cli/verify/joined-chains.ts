import type { Chain } from '../../clients/node/src/verify/export-shapes.ts';
import type { EarlierChains } from '../../clients/node/src/verify/export-verifier.ts';
import type { Head } from '../../clients/node/src/verify/record.ts';

/**
 * Where the chains of the files before end, for an export that goes on from archives: the memory of a hash
 * for each chain. A chain that no file has may begin in the first one alone, or at its first record.
 */
export class JoinedChains implements EarlierChains {
  readonly #heads = new Map<string, Head>();
  #files = 0;

  /** Of the next file. */
  beginFile(): void {
    this.#files += 1;
  }

  follows({ chain_id, archived, first_sequence, previous_attestation_hash }: Chain): boolean {
    const head = this.#heads.get(chain_id);
    if (head === undefined) return archived === undefined || this.#files <= 1;
    return first_sequence === head.sequence + 1 && previous_attestation_hash === head.hash;
  }

  end(chainId: string, head: Head): void {
    this.#heads.set(chainId, head);
  }
}
