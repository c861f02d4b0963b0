import { type ChainHead, emptyChain, linkAttestation } from '../../../shared/attestation/chain.ts';
import type { Keyset } from '../../../shared/crypto/keyset.ts';
import type { Attestation, AttestationRecord } from '../../../shared/model/attestation.ts';
import { renderAttestation } from '../../../shared/wire/evidence/attestation.ts';
import { recordFaultOf } from '../../support/data/verify-export.ts';

/** Records in their chains, each linked and signed as the control plane does it. */
export class Chains {
  /** By id, without those that void others. */
  readonly records = new Map<string, AttestationRecord>();
  readonly voided = new Set<string>();
  /** By id: what became of a PERMIT, in order, but for its void. */
  readonly changes = new Map<string, AttestationRecord[]>();
  readonly chains = new Map<string, Attestation[]>();
  readonly #key: { readonly kid: string; sign(message: string): string };

  constructor(key: { readonly kid: string; sign(message: string): string }) {
    this.#key = key;
  }

  append(record: AttestationRecord): void {
    if (record.resolution === null && this.records.has(record.id))
      throw new Error(`${record.id} is on record already`);
    const chain = this.chains.get(record.chainId) ?? [];
    this.chains.set(record.chainId, chain);
    const attestation = linkAttestation(record, chain.at(-1) ?? emptyChain, this.#key);
    chain.push(attestation);
    if (record.resolution === null) this.records.set(record.id, record);
    else if (record.refersTo !== null && record.resolution === 'voided') this.voided.add(record.refersTo);
    else if (record.refersTo !== null)
      this.changes.set(record.refersTo, [...(this.changes.get(record.refersTo) ?? []), record]);
  }

  isStanding(id: string): boolean {
    return this.records.has(id) && !this.voided.has(id);
  }

  /** The first fault; null: all chains verify. */
  async findFault(keys: Keyset): Promise<string | null> {
    for (const [chainId, chain] of this.chains) {
      let head: ChainHead = emptyChain;
      for (const attestation of chain) {
        const fault = await recordFaultOf(renderAttestation(attestation), head, keys);
        if (fault !== null) return `${chainId}: ${fault}`;
        head = attestation;
      }
    }
    return null;
  }
}
