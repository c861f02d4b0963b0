import { approvalsOf } from '../../shared/attestation/named-approvals.ts';
import type { Attestation } from '../../shared/model/attestation.ts';
import { type TextBuffer, textBuffer } from './text-buffer.ts';

const bytesAtFirst = 4 * 1024;

/**
 * What the records of an export name, in the order in which the export lists it. Policies are few. Passports
 * come as the chains do, in ascending order, and approvals with the chain of their passport: both are kept
 * outside of the heap, in 32 and 64 bytes each.
 */
export class ExportedNames {
  readonly policies = new Set<string>();
  readonly #passports: TextBuffer = textBuffer(bytesAtFirst);
  readonly #approvals: TextBuffer = textBuffer(bytesAtFirst);
  #chainId = '';
  #ofChain = new Set<string>();

  /** In the order of the export. */
  add(record: Attestation): void {
    if (record.policyHash !== null) this.policies.add(record.policyHash);
    if (record.chainId !== this.#chainId) {
      this.#endChain();
      this.#chainId = record.chainId;
      if (record.passportId !== null) this.#passports.add(`${record.passportId}\n`);
    }
    for (const { name } of approvalsOf(record)) this.#ofChain.add(name);
  }

  /** Once. */
  passports(): Iterable<string> {
    return linesOf(this.#passports.take());
  }

  /** Once: passport and approval, a space between the two. */
  approvals(): Iterable<string> {
    this.#endChain();
    return linesOf(this.#approvals.take());
  }

  #endChain(): void {
    for (const name of [...this.#ofChain].sort()) this.#approvals.add(`${name}\n`);
    this.#ofChain = new Set();
  }
}

function* linesOf(text: Buffer): Generator<string> {
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from);
    yield text.toString('latin1', from, end);
    from = end + 1;
  }
}
