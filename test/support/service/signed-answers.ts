import { createHash } from 'node:crypto';
import { type Authenticator, authenticator, type Deviation } from '../data/authenticator.ts';
import { type Api, cookiesOf, type LoggedIn, type Reply } from './api.ts';

/** A person's own passkey, registered as a browser does. */
export async function registerPasskey(
  api: Api,
  person: LoggedIn,
  made: Authenticator = authenticator(new URL(api.deps.baseUrl).origin),
): Promise<Authenticator> {
  const own = '/v1/users/me/passkeys';
  const { headers } = person;
  const begun = await api.call({
    url: `${own}/begin`,
    key: null,
    headers,
    body: { password: person.password },
  });
  const added = await api.call({
    url: own,
    key: null,
    headers: { ...headers, cookie: `${headers['cookie']}; ${cookiesOf(begun)}` },
    body: { name: 'Laptop', response: made.create(begun.body.options) },
  });
  if (added.status !== 201) throw new Error(`adding a passkey: ${JSON.stringify(added.body)}`);
  return made;
}

/** What is signed, as the contract has it (§8), spelled by hand. */
export const challengeOf = (signed: {
  readonly approval_id: string;
  readonly request_hash: string;
  readonly policy_hash: string;
  readonly amount_micro_usd: number | null;
  readonly answer: string;
}): string => {
  const { approval_id, request_hash, policy_hash, amount_micro_usd, answer } = signed;
  const text = `{"amount_micro_usd":${amount_micro_usd},"answer":"${answer}","approval_id":"${approval_id}","policy_hash":"${policy_hash}","request_hash":"${request_hash}"}`;
  return createHash('sha256').update(text).digest('base64url');
};

/** What the person's page does: reads the approval, and has its passkey sign the answer. */
export async function signAnswer(
  api: Api,
  { person, made, id }: { readonly person: LoggedIn; readonly made: Authenticator; readonly id: string },
  answer: 'approved' | 'denied',
  deviation: Deviation = {},
): Promise<Record<string, unknown>> {
  const { body } = await api.call({ url: `/v1/approvals/${id}`, key: null, headers: person.headers });
  return made.get(
    { challenge: challengeOf({ ...body, answer }), rpId: body.you.passkey?.rp_id ?? 'localhost' },
    deviation,
  );
}

export const giveAnswer = (
  api: Api,
  person: LoggedIn,
  { id, answer }: { readonly id: string; readonly answer: 'approved' | 'denied' },
  assertion?: object,
): Promise<Reply> =>
  api.call({
    url: `/v1/approvals/${id}/${answer === 'approved' ? 'approve' : 'deny'}`,
    key: null,
    headers: person.headers,
    body: assertion === undefined ? {} : { assertion },
  });
