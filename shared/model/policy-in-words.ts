/** What of a policy's constraints is said in words, as answers and exports have it. */
export interface SaidConstraints {
  readonly trusted_issuers?: readonly string[] | null;
  readonly allowed_domains?: readonly string[] | null;
  readonly proof_of_possession?: string | { readonly replay?: string | null } | null;
  readonly pii_controls?: { readonly mode: string; readonly types?: readonly string[] | null } | null;
  readonly spend_limits?: {
    readonly per?: string | null;
    readonly per_transaction_usd?: number | null;
    readonly daily_usd?: number | null;
    readonly monthly_usd?: number | null;
    readonly unpriced?: string | null;
  } | null;
  readonly rate_limits?: {
    readonly per?: string | null;
    readonly requests_per_minute?: number | null;
    readonly requests_per_hour?: number | null;
    readonly requests_per_day?: number | null;
  } | null;
  readonly approvals?: {
    readonly above_usd?: number | null;
    readonly permissions?: readonly string[] | null;
    readonly expires_in_s?: number | null;
    readonly approvers?: {
      readonly roles?: readonly string[] | null;
      readonly users?: readonly string[] | null;
      readonly count?: number | null;
      readonly not_requester?: boolean | null;
      readonly not_owner?: boolean | null;
      readonly independent?: boolean | null;
    } | null;
    readonly passkey?: boolean | null;
  } | null;
  readonly conditions?:
    | readonly {
        readonly id: string;
        readonly require: string;
        readonly permissions?: readonly string[] | null;
        readonly otherwise?: string | null;
      }[]
    | null;
}

const list = (items: readonly string[], last: string): string =>
  items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} ${last} ${items.at(-1)}`;

const words = (code: string): string => code.replaceAll('_', ' ');

/** `$12.50`: at least two decimals, at most six. */
const usdInWords = (amountUsd: number): string =>
  `$${amountUsd.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 6 })}`;

/** `90 s`, `5 min`, `2 h`, `3 days`: the largest unit that divides it. */
function durationInWords(seconds: number): string {
  for (const [unit, size] of [
    ['days', 86_400],
    ['h', 3_600],
    ['min', 60],
  ] as const) {
    if (seconds >= size && seconds % size === 0) return `${seconds / size} ${unit}`;
  }
  return `${seconds} s`;
}

const levelWords: Readonly<Record<string, string>> = {
  L1: 'Every valid passport may ask.',
  L2: 'Only passports of trust tier L2 or L3 may ask; what a sidecar knows may be 60 seconds old.',
  L3: 'Only passports of trust tier L3 may ask; what a sidecar knows may be 5 seconds old.',
};

/** What a gate demands, as sentences. Holds are not said: they decide nothing. */
export function policyInWords(level: string, constraints: SaidConstraints): readonly string[] {
  return [
    levelWords[level] ?? `Trust level ${level}.`,
    ...issuerWords(constraints.trusted_issuers),
    ...(constraints.allowed_domains
      ? [
          constraints.allowed_domains.length === 0
            ? 'No domain is allowed, so every request with a domain is blocked.'
            : `Requests may only go to ${list(constraints.allowed_domains, 'and')}.`,
        ]
      : []),
    ...proofWords(constraints.proof_of_possession),
    ...piiWords(constraints.pii_controls),
    ...spendWords(constraints.spend_limits),
    ...rateWords(constraints.rate_limits),
    ...approvalWords(constraints.approvals),
    ...conditionWords(constraints.conditions),
  ];
}

function issuerWords(issuers: SaidConstraints['trusted_issuers']): string[] {
  if (!issuers) return ['Only passports that this account issued are trusted.'];
  if (issuers.includes('*')) return ['Passports of every issuer of this service are trusted.'];
  const named = issuers.map((issuer) => (issuer === 'own' ? 'this account' : issuer));
  return [`Only passports issued by ${list(named, 'or')} are trusted.`];
}

function proofWords(demand: SaidConstraints['proof_of_possession']): string[] {
  if (!demand || demand === 'off') return [];
  const isExact = typeof demand === 'object' && demand.replay === 'exact';
  const where = isExact ? 'over all sidecars' : 'at each sidecar';
  return [`Agents sign each request with the key of their passport; a proof counts once ${where}.`];
}

function piiWords(pii: SaidConstraints['pii_controls']): string[] {
  if (!pii) return [];
  const what = pii.types ? list(pii.types.map(words), 'or') : 'personal data';
  if (pii.mode === 'block') return [`Requests with ${what} in them are blocked.`];
  if (pii.mode === 'redact') return [`Found ${what} is removed from the request that is passed on.`];
  return [`Found ${what} is recorded, and the request goes on.`];
}

const conditionWords = (conditions: SaidConstraints['conditions']): string[] =>
  (conditions ?? []).map(({ id, require, permissions, otherwise }) => {
    const of = permissions ? `Requests for ${list(permissions, 'or')}` : 'Requests';
    const then = otherwise === 'approve' ? 'else a person must approve' : 'else they are blocked';
    return `${of} must meet the condition ${id} (${require.replaceAll(/\s+/g, ' ')}), ${then}.`;
  });

const eachInWords = (per: unknown): string =>
  per === 'passport' ? ' for each passport' : per === 'user' ? ' for each user' : ' in all';

function spendWords(spend: SaidConstraints['spend_limits']): string[] {
  if (!spend) return [];
  const per = eachInWords(spend.per);
  const { per_transaction_usd: one, daily_usd: day, monthly_usd: month } = spend;
  return [
    ...(typeof one === 'number' ? [`One request may spend at most ${usdInWords(one)}.`] : []),
    ...(typeof day === 'number' ? [`At most ${usdInWords(day)} may be spent in a day${per}.`] : []),
    ...(typeof month === 'number' ? [`At most ${usdInWords(month)} may be spent in a month${per}.`] : []),
    spend.unpriced === 'permit'
      ? 'A request without an amount and without a price counts as 0.'
      : 'A request without an amount and without a price is blocked.',
  ];
}

function rateWords(rate: SaidConstraints['rate_limits']): string[] {
  if (!rate) return [];
  const per = eachInWords(rate.per);
  return (['minute', 'hour', 'day'] as const).flatMap((unit) => {
    const most = rate[`requests_per_${unit}`];
    if (typeof most !== 'number') return [];
    return [`At most ${most} ${most === 1 ? 'request' : 'requests'} in a ${unit}${per}.`];
  });
}

function approvalWords(approvals: SaidConstraints['approvals']): string[] {
  if (!approvals) return [];
  const { above_usd: above, permissions } = approvals;
  const cases = [
    ...(typeof above === 'number' ? [`for more than ${usdInWords(above)}`] : []),
    ...(permissions && permissions.length > 0 ? [`for ${list(permissions, 'or')}`] : []),
  ];
  const time = durationInWords(approvals.expires_in_s ?? 3600);
  return [
    ...(cases.length === 0 ? [] : [`A person must approve requests ${list(cases, 'and')}, within ${time}.`]),
    ...answerWords(approvals),
  ];
}

const roleWords: Readonly<Record<string, string>> = {
  owner: 'owners',
  admin: 'admins',
  approver: 'approvers',
};

function answerWords({ approvers, passkey }: NonNullable<SaidConstraints['approvals']>): string[] {
  const signed = passkey ? ['Each answer is signed with a passkey.'] : [];
  if (!approvers) return signed;
  const { roles, users, not_requester: notRequester, not_owner: notOwner } = approvers;
  const count = approvers.count ?? 1;
  const named = [
    ...(roles ?? []).map((role) => roleWords[role] ?? role),
    ...(users === undefined || users === null
      ? []
      : [users.length === 1 ? 'one named person' : `${users.length} named people`]),
  ];
  const who = named.length === 0 ? 'people who may answer approvals' : list(named, 'and');
  return [
    `${count === 1 ? 'One person' : `${count} different people`} of these must approve: ${who}. One denial ends it.`,
    ...(notRequester === false
      ? []
      : ['The person behind the passport or the key that asks does not answer.']),
    ...(notOwner === true ? ['The owner of the passport does not answer.'] : []),
    ...(approvers.independent === true
      ? ["People who could have opened the links of each other's invitations count as one."]
      : []),
    ...signed,
  ];
}
