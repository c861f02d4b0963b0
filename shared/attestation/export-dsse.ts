import { textHasher } from '../crypto/content-hash.ts';
import { assert, must } from '../errors/assert.ts';
import type { Attestation } from '../model/attestation.ts';
import { renderOptionalTime, renderTime } from '../model/time.ts';
import { renderAttestation } from '../wire/evidence/attestation.ts';
import { type BrokenAnswer, brokenNamedMax } from './broken-chains.ts';
import {
  type EnvelopeKey,
  type EnvelopeSignature,
  envelopeLine,
  type Statement,
  signedText,
  statementJson,
  type UnsignedRecord,
} from './envelope.ts';
import type { ExportEnd, ExportManifest, ExportWriter } from './export.ts';

/** in-toto predicate types: a change of what a predicate means gets another version. */
const predicateTypes = {
  record: 'urn:agent-trust:attestation:v1',
  end: 'urn:agent-trust:attestation-export-end:v1',
} as const;

/**
 * The records of an export as DSSE envelopes with in-toto Statements, one in each line, in the order of
 * jsonl. The last line is an envelope, too: about the bytes of all lines before it, with their number and the
 * chains that are not whole. A truncated file lacks it.
 *
 * A record that does not verify gets no envelope: the end names its chain.
 */
export function dsseWriter({ keyId, sign }: EnvelopeKey): ExportWriter {
  const file = textHasher();
  const faults: BrokenAnswer[] = [];
  let lastFaulty = '';
  const count = { envelopes: 0, faultsUnnamed: 0 };
  let manifest: ExportManifest | null = null;
  let waiting: UnsignedEnvelope[] = [];
  let taken: readonly UnsignedEnvelope[] = [];

  /** The first of each chain; the records of a chain come together. */
  function note(fault: BrokenAnswer): void {
    if (fault.chain_id === lastFaulty) return;
    lastFaulty = fault.chain_id;
    if (faults.length < brokenNamedMax) faults.push(fault);
    else count.faultsUnnamed += 1;
  }

  return {
    manifest: (given) => {
      assert(manifest === null, 'an export has one manifest');
      manifest = given;
      return '';
    },
    chain: () => '',
    record: (attestation) => {
      const payload = statementJson(statementOf(attestation));
      waiting.push({ attestation, payload, text: signedText(payload) });
      return '';
    },
    signing: {
      take: (countMax) => {
        assert(taken.length === 0, 'what was taken is written before more is');
        taken = waiting.slice(0, countMax);
        waiting = waiting.slice(countMax);
        return taken;
      },
      write: (signatures) => {
        assert(signatures.length === taken.length, 'what was taken is written, and nothing else');
        const lines = taken.map((each, i) =>
          envelopeOf(each, must(signatures[i], 'each record is signed or refused')),
        );
        taken = [];
        const text = lines.join('');
        file.add(text);
        return text;
      },
    },
    facts: () => '',
    attachment: () => '',
    end: (end) => {
      assert(waiting.length + taken.length === 0, 'records are signed before the end');
      const payload = statementJson({
        predicateType: predicateTypes.end,
        predicate: endOf(end, must(manifest, 'the manifest comes first')),
        subject: { name: 'lines before this one', sha256Hex: file.hex() },
      });
      return envelopeLine(payload, { keyId, signature: sign(signedText(payload)) });
    },
  };

  function envelopeOf({ attestation, payload }: UnsignedEnvelope, signature: EnvelopeSignature): string {
    if (typeof signature === 'string') {
      note({ chain_id: attestation.chainId, fault: signature, sequence: attestation.sequence });
      return '';
    }
    count.envelopes += 1;
    return envelopeLine(payload, { keyId, signature });
  }

  function endOf(end: ExportEnd, { createdAtMs, sinceMs }: ExportManifest): object {
    const broken = [...end.broken, ...faults];
    const unnamed = end.brokenUnnamed + count.faultsUnnamed + Math.max(0, broken.length - brokenNamedMax);
    return {
      ...(broken.length > 0 && { broken: broken.slice(0, brokenNamedMax) }),
      ...(unnamed > 0 && { broken_unnamed: unnamed }),
      created_at: renderTime(createdAtMs),
      envelopes: count.envelopes,
      since: renderOptionalTime(sinceMs),
    };
  }
}

interface UnsignedEnvelope extends UnsignedRecord {
  readonly payload: string;
}

const statementOf = (attestation: Attestation): Statement => ({
  predicateType: predicateTypes.record,
  predicate: renderAttestation(attestation),
  subject: { name: attestation.id, sha256Hex: attestation.hash.slice('sha256:'.length) },
});
