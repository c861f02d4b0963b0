import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { decodeBase64url } from '../crypto/base64url.ts';
import { canonicalJson } from '../crypto/canonical-json.ts';
import { contentHash } from '../crypto/content-hash.ts';
import type { Keyset } from '../crypto/keyset.ts';
import type { Attestation } from '../model/attestation.ts';
import { catalogMessage } from '../wire/catalog-signature.ts';
import { evidenceMessage, SignedApproval, SignedPassport } from '../wire/evidence.ts';
import { closed } from '../wire/fields.ts';
import { policyMessage, SignedPolicy } from '../wire/policy.ts';
import { ApprovalCheck } from './approval-check.ts';
import { approvalsOf, type NamedApproval } from './named-approvals.ts';

/** As `GET /gates/:id/catalog` answers it, of any version of the service. */
const SignedCatalog = Type.Object({
  content_hash: Type.String(),
  signature: Type.String(),
  signing_key_id: Type.String(),
});

/**
 * What the records of an export name, behind its chains: policies, the catalogs that these name, passports,
 * approvals; of each kind ascending by name. The name of an approval begins with the passport that it is for.
 */
export const Attachment = Type.Union([
  closed({ policy: SignedPolicy }),
  closed({ catalog: SignedCatalog }),
  closed({ passport: SignedPassport }),
  closed({ approval: SignedApproval }),
]);
export type Attachment = Static<typeof Attachment>;

const kinds = ['policy', 'catalog', 'passport', 'approval'] as const;

const shape = Compile(Attachment);

/** Of the parsed JSON of its line; null for another line. */
export const parseAttachment = (value: unknown): Attachment | null =>
  typeof value === 'object' && value !== null && kinds.some((kind) => kind in value) && shape.Check(value)
    ? value
    : null;

export const attachmentLine = (attachment: Attachment): string => `${canonicalJson(attachment)}\n`;

export const attachmentFaults = {
  attachment_order: 'the policies, catalogs, passports and approvals are not in ascending order',
  attachment_mismatch: 'the content of this line does not match its hash: it was changed',
  attachment_key_unknown: 'this line names a signing key that the manifest or the JWKS does not have',
  attachment_signature_invalid: 'the signature of this line is not valid',
  attachment_unnamed: 'nothing in this export names this policy, catalog, passport or approval',
  attachment_missing: 'a policy, catalog, passport or approval that is named is not in this export',
  approval_differs: 'this approval is about another request, amount or policy than the record that names it',
  answer_forged: 'an answer of this approval is not signed by the passkey that it names',
  answer_missing: 'this approval lacks an answer, or a signature, that its policy demands',
} as const;

type AttachmentFault = keyof typeof attachmentFaults;

/** A signature as its line has it. */
interface Signed {
  readonly name: string;
  readonly hash: string;
  /** What is hashed. */
  readonly content: object;
  readonly message: (hash: string) => string;
  readonly purpose: 'attestation' | 'catalog';
  readonly signature: string;
  readonly kid: string;
}

/**
 * Holds the attachments of an export against what its records name. Keeps the names: some hundred bytes for
 * each.
 */
export class AttachmentReader {
  readonly #keys: Keyset;
  readonly #named = {
    policy: new Set<string>(),
    catalog: new Set<string>(),
    passport: new Set<string>(),
  };
  readonly #approvals = new Map<string, NamedApproval>();
  readonly #checks = new ApprovalCheck();
  /** Kind and name of the line before. */
  #last: readonly [kind: number, name: string] = [0, ''];
  #lastPassport = '';
  /** Passports and approvals, which nothing but their signature vouches for, by a compromised key. */
  compromised = 0;
  /** Approvals of which the file says nothing but that they were removed. */
  removed = 0;

  constructor(keys: Keyset) {
    this.#keys = keys;
  }

  get isAnyMissing(): boolean {
    const { policy, catalog, passport } = this.#named;
    return policy.size + catalog.size + passport.size + this.#approvals.size > 0;
  }

  /** A record of the export: what it names has to follow. */
  name(record: Attestation): void {
    const { policyHash, passportId } = record;
    if (policyHash !== null) this.#named.policy.add(policyHash);
    if (passportId !== null && passportId !== this.#lastPassport) {
      this.#named.passport.add(passportId);
      this.#lastPassport = passportId;
    }
    for (const approval of approvalsOf(record)) {
      const known = this.#approvals.get(approval.name);
      if (known === undefined) this.#approvals.set(approval.name, approval);
      else known.add(approval);
    }
  }

  read(attachment: Attachment, keyIds: readonly string[]): AttachmentFault | null {
    const kind = kinds.findIndex((each) => each in attachment);
    const signed = signedOf(attachment);
    const [lastKind, lastName] = this.#last;
    if (kind < lastKind || (kind === lastKind && signed.name <= lastName)) return 'attachment_order';
    this.#last = [kind, signed.name];
    if (contentHash(signed.content) !== signed.hash) return 'attachment_mismatch';
    const isListed = signed.purpose === 'catalog' || keyIds.includes(signed.kid);
    const signer = isListed ? this.#keys.find(signed.purpose, signed.kid) : null;
    if (signer === null) return 'attachment_key_unknown';
    const bytes = decodeBase64url(signed.signature);
    const message = Buffer.from(signed.message(signed.hash), 'latin1');
    if (bytes === null || !signer.verify(message, bytes)) return 'attachment_signature_invalid';
    const isStatement = 'passport' in attachment || 'approval' in attachment;
    if (isStatement && signer.key.compromised) this.compromised++;
    if ('approval' in attachment && attachment.approval.body.removed === true) this.removed++;
    return this.#take(attachment, signed.name);
  }

  #take(attachment: Attachment, name: string): AttachmentFault | null {
    if ('approval' in attachment) {
      const named = this.#approvals.get(name);
      if (named === undefined) return 'attachment_unnamed';
      this.#approvals.delete(name);
      return this.#checks.faultOf(attachment.approval.body, named);
    }
    if ('policy' in attachment) {
      const { body } = attachment.policy;
      const { catalog_hash: catalog } = body;
      if (typeof catalog === 'string') this.#named.catalog.add(catalog);
      this.#checks.learnPolicy(name, body);
    }
    const [kind] = Object.keys(attachment) as ['policy' | 'catalog' | 'passport'];
    return this.#named[kind].delete(name) ? null : 'attachment_unnamed';
  }
}

function signedOf(attachment: Attachment): Signed {
  if ('policy' in attachment) {
    const { body, policy_hash: hash, signature, signing_key_id: kid } = attachment.policy;
    const message = policyMessage;
    return { name: hash, hash, content: body, message, purpose: 'attestation', signature, kid };
  }
  if ('catalog' in attachment) {
    const { content_hash: hash, signature, ...content } = attachment.catalog;
    const message = catalogMessage;
    return { name: hash, hash, content, message, purpose: 'catalog', signature, kid: content.signing_key_id };
  }
  const kind = 'passport' in attachment ? 'passport' : 'approval';
  const signed = 'passport' in attachment ? attachment.passport : attachment.approval;
  const name =
    'passport' in attachment
      ? attachment.passport.body.passport_id
      : approvalName(attachment.approval.body.passport_id, attachment.approval.body.approval_id);
  return {
    name,
    hash: signed.hash,
    content: signed.body,
    message: (hash) => evidenceMessage(kind, hash),
    purpose: 'attestation',
    signature: signed.signature,
    kid: signed.signing_key_id,
  };
}

const approvalName = (chainId: string, approvalId: string): string => `${chainId} ${approvalId}`;
