import { verifyAnswer } from './answer.ts';
import { canonical, hashOf, isObject, type Json } from './canonical.ts';
import { type ServiceKey, verifies } from './keys.ts';

/** What the records of an export say of an approval that they name. */
interface Named {
  readonly isStanding: boolean;
  readonly request_hash: unknown;
  /** Undefined: no record says what was asked, only what a PERMIT counts from then on. */
  amount_micro_usd: unknown;
  policy_hash: unknown;
  /** A record says so, or a PERMIT used it. */
  isApproved: boolean;
  isDenied: boolean;
}

interface Signed {
  readonly name: string;
  readonly hash: unknown;
  readonly content: Json;
  readonly kid: unknown;
  readonly signature: unknown;
}

const kinds = ['policy', 'catalog', 'passport', 'approval'] as const;
type Kind = (typeof kinds)[number];
const purposes = {
  policy: 'attestation',
  catalog: 'catalog',
  passport: 'attestation',
  approval: 'attestation',
};

export const isAttachment = (value: Json): boolean => kinds.some((kind) => kind in value);

/**
 * What the records of an export name, behind its chains (docs/verify.md, 1 and 6). Methods answer what is
 * wrong, or null.
 */
export class Attachments {
  readonly #named = { policy: new Set<string>(), catalog: new Set<string>(), passport: new Set<string>() };
  readonly #approvals = new Map<string, Named>();
  /** Policies that want signed answers, and how many. */
  readonly #signedPolicies = new Map<unknown, number>();
  #last: readonly [kind: number, name: string] = [0, ''];
  /** Passports and approvals by a compromised key. */
  compromised = 0;
  /** Approvals of which the file says nothing but that they were removed. */
  removed = 0;

  get areAllThere(): boolean {
    const { policy, catalog, passport } = this.#named;
    return policy.size + catalog.size + passport.size + this.#approvals.size === 0;
  }

  name(record: Json): string | null {
    const { passport_id: passport, policy_hash: policy, refers_to, approval_id, request_hash } = record;
    const { decision, resolution } = record;
    const isPermit = decision === 'PERMIT';
    const isOutcome = isPermit && resolution !== null && resolution !== 'voided';
    const amount = isOutcome ? undefined : record['amount_micro_usd'];
    if (typeof policy === 'string') this.#named.policy.add(policy);
    if (typeof passport === 'string') this.#named.passport.add(passport);
    const resolved = String(refers_to).startsWith('appr_') ? refers_to : null;
    for (const id of new Set([resolved, approval_id ?? null])) {
      if (id === null) continue;
      const name = `${record['chain_id']} ${id}`;
      const named = this.#approvals.get(name) ?? {
        isStanding: String(id).startsWith('sappr_'),
        ...{ request_hash, amount_micro_usd: amount, policy_hash: policy ?? null },
        ...{ isApproved: false, isDenied: false },
      };
      this.#approvals.set(name, named);
      const isSame =
        request_hash === named.request_hash &&
        (isOutcome || named.amount_micro_usd === undefined || amount === named.amount_micro_usd) &&
        (typeof policy !== 'string' || (named.policy_hash ?? policy) === policy);
      if (!named.isStanding && !isSame) return 'the record is about another request than its approval';
      if (named.amount_micro_usd === undefined) named.amount_micro_usd = amount;
      named.policy_hash ??= policy ?? null;
      named.isApproved ||= isPermit || resolution === 'approved';
      named.isDenied ||= resolution === 'denied';
    }
    return null;
  }

  async read(
    value: Json,
    keys: ReadonlyMap<string, ServiceKey>,
    keyIds: readonly string[],
  ): Promise<string | null> {
    const kind = kinds.find((each) => each in value) as Kind;
    const signed = Object.keys(value).length === 1 ? signedOf(kind, value[kind]) : null;
    if (signed === null) return `the line is no ${kind} of this format`;
    const { name, hash, content, kid, signature } = signed;
    const place = kinds.indexOf(kind);
    const [lastPlace, lastName] = this.#last;
    if (place < lastPlace || (place === lastPlace && name <= lastName)) return 'the order is another one';
    this.#last = [place, name];
    if ((await hashOf(canonical(content) ?? '')) !== hash) return `the hash does not match the ${kind}`;
    const key = keys.get(String(kid));
    const isListed = kind === 'catalog' || keyIds.includes(String(kid));
    if (key?.purpose !== purposes[kind] || !isListed)
      return `the key of the ${kind} is not one of the manifest`;
    if (!(await verifies(key, `agent-trust.${kind}.v1:${hash}`, signature)))
      return 'the signature is not valid';
    if (key.isCompromised && (kind === 'passport' || kind === 'approval')) this.compromised += 1;
    if (kind === 'approval' && content['removed'] === true) this.removed += 1;
    return this.#take(kind, name, content);
  }

  async #take(kind: Kind, name: string, content: Json): Promise<string | null> {
    if (kind === 'approval') {
      const named = this.#approvals.get(name);
      if (named === undefined) return 'no record names this approval';
      this.#approvals.delete(name);
      return this.#faultOf(content, named);
    }
    if (kind === 'policy') this.#learn(name, content);
    return this.#named[kind].delete(name) ? null : `nothing names this ${kind}`;
  }

  #learn(hash: string, { catalog_hash, constraints }: Json): void {
    if (typeof catalog_hash === 'string') this.#named.catalog.add(catalog_hash);
    const rule = isObject(constraints) ? constraints['approvals'] : null;
    if (!isObject(rule) || rule['passkey'] !== true) return;
    const { approvers } = rule;
    const count = isObject(approvers) ? approvers['count'] : 1;
    this.#signedPolicies.set(hash, typeof count === 'number' ? count : 1);
  }

  async #faultOf(body: Json, named: Named): Promise<string | null> {
    if (body['removed'] === true || named.isStanding) return null;
    const { request_hash, amount_micro_usd: amount } = body;
    const isAmount = named.amount_micro_usd === undefined || amount === named.amount_micro_usd;
    const isSame = request_hash === named.request_hash && isAmount;
    if (!isSame) return 'the approval is about another request than the record that names it';
    const answers = Array.isArray(body['answers']) ? body['answers'].filter(isObject) : [];
    for (const answer of answers) {
      const { assertion } = answer;
      if (!isObject(assertion)) continue;
      if (assertion['policy_hash'] !== (named.policy_hash ?? assertion['policy_hash']))
        return 'an answer signs another policy than the one of the record';
      const verdict = await verifyAnswer(body, answer);
      if (!verdict.valid) return `an answer is forged: ${verdict.fault}`;
    }
    const count = this.#signedPolicies.get(named.policy_hash);
    if (count === undefined) return null;
    const people = (given: string): number =>
      new Set(answers.flatMap((each) => (each['answer'] === given ? [each['user_id']] : []))).size;
    const isWhole =
      answers.every(({ assertion }) => isObject(assertion)) &&
      (!named.isApproved || people('approved') >= count) &&
      (!named.isDenied || people('denied') > 0);
    return isWhole ? null : 'the policy demands signed answers that the approval lacks';
  }
}

/** Null: the members are others. */
function signedOf(kind: Kind, value: unknown): Signed | null {
  if (!isObject(value)) return null;
  if (kind === 'catalog') {
    const { content_hash: hash, signature, ...content } = value;
    return { name: String(hash), hash, content, kid: content['signing_key_id'], signature };
  }
  const hashName = kind === 'policy' ? 'policy_hash' : 'hash';
  const { body, [hashName]: hash, signature, signing_key_id: kid, ...none } = value;
  if (Object.keys(none).length > 0 || !isObject(body)) return null;
  const { passport_id, approval_id } = body;
  const names = { policy: hash, passport: passport_id, approval: `${passport_id} ${approval_id}` };
  return { name: String(names[kind]), hash, content: body, kid, signature };
}
