import type { InvalidExport } from '../../clients/node/src/verify/export-verifier.ts';
import type { ExportFault } from '../../clients/node/src/verify/record.ts';
import { describeBroken } from '../../shared/attestation/broken-chains.ts';

/** Faults of an export, as the command says them. */
const sentences: Readonly<Record<ExportFault, string>> = {
  not_a_line:
    'this is not a line of UTF-8 text that ends in a newline, or it is longer than any in an export',
  not_canonical: 'this line is not in the canonical form that the service writes: it was changed',
  not_laid_out: 'these lines are not laid out as in a JSON export: verify the file as it was downloaded',
  csv: 'this is an export as CSV, which lacks what is verified: export as jsonl or json',
  no_manifest:
    'the first line is not a manifest of a known format. If this is an export, another program has rewritten it: ' +
    'verify the file as it was downloaded',
  manifest_key_unknown:
    'the manifest names a key that is not an attestation key of the JWKS (fetch the JWKS again)',
  key_not_listed: 'this record names a signing key that the manifest does not',
  key_not_yet_valid: 'this record names a signing key that came into force after the export was made',
  no_chain: 'a chain header or the end line is expected here',
  chain_order: 'the chains are not in ascending order',
  chain_start: 'this chain does not start where its export should start',
  wrong_chain: 'this record belongs to another chain',
  wrong_last_hash: 'this is the last record of its chain, but not the one that the chain header names',
  wrong_archived: 'this chain does not go on after the archived records that its header names',
  not_joined: 'this chain does not go on where the files before this one end',
  stops_early:
    'this chain stops before the last record that its header names, and the end line does not name it',
  log_proof_invalid:
    'the proof of the log in this chain header does not hold, or is not of a record that follows',
  log_proof_differs: 'this is not the record that the proof of the log in its chain header has',
  malformed: 'this is not an attestation record',
  hash_mismatch: 'the content of this record does not match its hash: it was changed',
  unknown_key: 'this record names a signing key that is not an attestation key of the JWKS',
  signature_invalid: 'the signature of this record is not valid',
  sequence_gap: 'this is not the next sequence number of its chain: a record is missing or repeated',
  link_broken: 'this record does not name the hash of the record before it',
  facts_misplaced: 'these facts do not follow the record that they are of',
  fact_unnamed: 'the record before has no commitment to one of these facts, or one is there twice',
  fact_mismatch: 'a value here is not the one that the record before is committed to',
  attachment_order: 'the policies, catalogs, passports and approvals are not in ascending order',
  attachment_mismatch: 'the content of this line does not match its hash: it was changed',
  attachment_key_unknown: 'this line names a signing key that the manifest or the JWKS does not have',
  attachment_signature_invalid: 'the signature of this line is not valid',
  attachment_unnamed: 'nothing in this export names this policy, catalog, passport or approval',
  attachment_missing: 'a policy, catalog, passport or approval that is named is not in this export',
  approval_differs: 'this approval is about another request, amount or policy than the record that names it',
  answer_forged: 'an answer of this approval is not signed by the passkey that it names',
  answer_missing: 'this approval lacks an answer, or a signature, that its policy demands',
  wrong_counts: 'the counts of chains and records differ from those in the end line',
  broken: 'the service itself found chains that are not whole in its database',
  after_end: 'nothing may follow the end line',
  no_end: 'the export is incomplete: it has no end line',
};

export function sentenceOf({ fault, broken }: InvalidExport): string {
  const [first] = broken;
  return first === undefined ? sentences[fault] : `${sentences[fault]}: ${describeBroken(first)}`;
}
