import { verifyAnswer } from './answer.ts';
import { canonical, isObject, type Json } from './canonical.ts';
import { demand, type ExportCrypto, Fault } from './record.ts';

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
  readonly kid: string;
  readonly signature: string;
}

const kinds = ['policy', 'catalog', 'passport', 'approval', 'condition'] as const;
type Kind = (typeof kinds)[number];
const purposes = {
  policy: 'attestation',
  catalog: 'catalog',
  passport: 'attestation',
  approval: 'attestation',
  condition: 'attestation',
} as const;

export const isAttachment = (value: unknown): value is Json =>
  isObject(value) && kinds.some((kind) => kind in value);

/** What the records of an export name, after its chains (docs/verify.md, 1 and 6). Methods throw `Fault`. */
export class Attachments {
  readonly #crypto: ExportCrypto;
  readonly #named = { policy: new Set<string>(), catalog: new Set<string>(), passport: new Set<string>() };
  readonly #approvals = new Map<string, Named>();
  /** Expressions of policies and passports, whose checked forms may follow. */
  readonly #expressions = new Set<unknown>();
  /** Policies that want signed answers, and how many. */
  readonly #signedPolicies = new Map<unknown, number>();
  #last: readonly [kind: number, name: string] = [0, ''];
  /** Passports and approvals by a compromised key. */
  compromised = 0;
  /** Approvals of which the file says nothing but that they were removed. */
  removed = 0;

  constructor(crypto: ExportCrypto) {
    this.#crypto = crypto;
  }

  get areAllThere(): boolean {
    const { policy, catalog, passport } = this.#named;
    return policy.size + catalog.size + passport.size + this.#approvals.size === 0;
  }

  name(record: Json): void {
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
      const isOne = named.isStanding || isSame;
      demand(isOne, 'approval_differs', 'the record is about another request than its approval');
      if (named.amount_micro_usd === undefined) named.amount_micro_usd = amount;
      named.policy_hash ??= policy ?? null;
      named.isApproved ||= isPermit || resolution === 'approved';
      named.isDenied ||= resolution === 'denied';
    }
  }

  async read(value: Json, keyIds: readonly string[]): Promise<void> {
    const kind = kinds.find((each) => each in value) as Kind;
    const signed = Object.keys(value).length === 1 ? signedOf(kind, value[kind]) : null;
    demand(signed !== null, 'no_chain', `the line is no ${kind} of this format`);
    const { name, hash, content, kid, signature } = signed;
    const place = kinds.indexOf(kind);
    const [lastPlace, lastName] = this.#last;
    const isNext = place > lastPlace || (place === lastPlace && name > lastName);
    demand(isNext, 'attachment_order', 'the order is another one');
    this.#last = [place, name];
    const isWhole = (await this.#crypto.hash(canonical(content) ?? '')) === hash;
    demand(isWhole, 'attachment_mismatch', `the hash does not match the ${kind}`);
    const isListed = kind === 'catalog' || keyIds.includes(kid);
    const key = isListed ? this.#crypto.find(purposes[kind], kid) : null;
    demand(key !== null, 'attachment_key_unknown', `the key of the ${kind} is not one of the manifest`);
    const isSigned = await key.verifies(`agent-trust.${kind}.v1:${hash}`, signature);
    demand(isSigned, 'attachment_signature_invalid', 'the signature is not valid');
    if (key.isCompromised && (kind === 'passport' || kind === 'approval')) this.compromised += 1;
    if (kind === 'approval' && content['removed'] === true) this.removed += 1;
    await this.#take(kind, name, content);
  }

  async #take(kind: Kind, name: string, content: Json): Promise<void> {
    if (kind === 'approval') {
      const named = this.#approvals.get(name);
      demand(named !== undefined, 'attachment_unnamed', 'no record names this approval');
      this.#approvals.delete(name);
      return this.#holdAgainst(content, named);
    }
    if (kind === 'condition') {
      const isNamed = this.#expressions.delete(content['require']);
      return demand(isNamed, 'attachment_unnamed', 'nothing names this condition, or it is there twice');
    }
    if (kind === 'policy') this.#learn(name, content);
    if (kind !== 'catalog') this.#learnExpressions(content['constraints']);
    demand(this.#named[kind].delete(name), 'attachment_unnamed', `nothing names this ${kind}`);
  }

  #learn(hash: string, { catalog_hash, constraints }: Json): void {
    if (typeof catalog_hash === 'string') this.#named.catalog.add(catalog_hash);
    const rule = isObject(constraints) ? constraints['approvals'] : null;
    if (!isObject(rule) || rule['passkey'] !== true) return;
    const { approvers } = rule;
    const count = isObject(approvers) ? approvers['count'] : 1;
    this.#signedPolicies.set(hash, typeof count === 'number' ? count : 1);
  }

  #learnExpressions(constraints: unknown): void {
    const conditions = isObject(constraints) ? constraints['conditions'] : null;
    for (const each of Array.isArray(conditions) ? conditions : [])
      if (isObject(each)) this.#expressions.add(each['require']);
  }

  async #holdAgainst(body: Json, named: Named): Promise<void> {
    if (body['removed'] === true || named.isStanding) return;
    const { request_hash, amount_micro_usd: amount } = body;
    const isAmount = named.amount_micro_usd === undefined || amount === named.amount_micro_usd;
    const isSame = request_hash === named.request_hash && isAmount;
    const differs = 'the approval is about another request than the record that names it';
    demand(isSame, 'approval_differs', differs);
    const answers = Array.isArray(body['answers']) ? body['answers'].filter(isObject) : [];
    for (const answer of answers) {
      const { assertion } = answer;
      if (!isObject(assertion)) continue;
      const isPolicy = assertion['policy_hash'] === (named.policy_hash ?? assertion['policy_hash']);
      const other = 'an answer signs another policy than the one of the record';
      demand(isPolicy, 'approval_differs', other);
      const verdict = await verifyAnswer(body, answer);
      if (!verdict.valid) throw new Fault('answer_forged', `an answer is forged: ${verdict.fault}`);
    }
    const count = this.#signedPolicies.get(named.policy_hash);
    if (count === undefined) return;
    const people = (given: string): number =>
      new Set(answers.flatMap((each) => (each['answer'] === given ? [each['user_id']] : []))).size;
    const isWhole =
      answers.every(({ assertion }) => isObject(assertion)) &&
      (!named.isApproved || people('approved') >= count) &&
      (!named.isDenied || people('denied') > 0);
    demand(isWhole, 'answer_missing', 'the policy demands signed answers that the approval lacks');
  }
}

/** Null: the members are others. */
function signedOf(kind: Kind, value: unknown): Signed | null {
  if (!isObject(value)) return null;
  if (kind === 'catalog') {
    const { content_hash: hash, signature, ...content } = value;
    const { signing_key_id: kid } = content;
    if (typeof hash !== 'string' || typeof kid !== 'string' || typeof signature !== 'string') return null;
    return { name: hash, hash, content, kid, signature };
  }
  const hashName = kind === 'policy' ? 'policy_hash' : 'hash';
  const { body, [hashName]: hash, signature, signing_key_id: kid, ...none } = value;
  if (Object.keys(none).length > 0 || !isObject(body)) return null;
  if (typeof kid !== 'string' || typeof signature !== 'string') return null;
  const { passport_id, approval_id } = body;
  const names = {
    ...{ policy: hash, passport: passport_id, condition: hash },
    approval: `${passport_id} ${approval_id}`,
  };
  return { name: String(names[kind]), hash, content: body, kid, signature };
}
