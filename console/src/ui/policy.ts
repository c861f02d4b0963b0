import type { GateConstraints } from '../api/client.ts';
import { duration, usd, words } from './format.ts';
import { proofChoiceOf } from './proof-choice.ts';

const list = (items: readonly string[], last: string): string =>
  items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} ${last} ${items.at(-1)}`;

const levelWords: Readonly<Record<string, string>> = {
  L1: 'Every valid passport may ask.',
  L2: 'Only passports of trust tier L2 or L3 may ask; what a sidecar knows may be 60 seconds old.',
  L3: 'Only passports of trust tier L3 may ask; what a sidecar knows may be 5 seconds old.',
};

/** What a gate demands, as sentences that say all of it. */
export function policyInWords(level: string, constraints: GateConstraints): readonly string[] {
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
  ];
}

function issuerWords(issuers: GateConstraints['trusted_issuers']): string[] {
  if (!issuers) return ['Only passports that this account issued are trusted.'];
  if (issuers.includes('*')) return ['Passports of every issuer of this service are trusted.'];
  const named = issuers.map((issuer) => (issuer === 'own' ? 'this account' : issuer));
  return [`Only passports issued by ${list(named, 'or')} are trusted.`];
}

function proofWords(demand: GateConstraints['proof_of_possession']): string[] {
  const choice = proofChoiceOf(demand);
  if (choice === '') return [];
  const where = choice === 'exact' ? 'over all sidecars' : 'at each sidecar';
  return [`Agents sign each request with the key of their passport; a proof counts once ${where}.`];
}

function piiWords(pii: GateConstraints['pii_controls']): string[] {
  if (!pii) return [];
  const what = pii.types ? list(pii.types.map(words), 'or') : 'personal data';
  if (pii.mode === 'block') return [`Requests with ${what} in them are blocked.`];
  if (pii.mode === 'redact') return [`Found ${what} is removed from the request that is passed on.`];
  return [`Found ${what} is recorded, and the request goes on.`];
}

function spendWords(spend: GateConstraints['spend_limits']): string[] {
  if (!spend) return [];
  const per = spend.per === 'passport' ? ' for each passport' : ' in all';
  const { per_transaction_usd: one, daily_usd: day, monthly_usd: month } = spend;
  return [
    ...(typeof one === 'number' ? [`One request may spend at most ${usd(one)}.`] : []),
    ...(typeof day === 'number' ? [`At most ${usd(day)} may be spent in a day${per}.`] : []),
    ...(typeof month === 'number' ? [`At most ${usd(month)} may be spent in a month${per}.`] : []),
    spend.unpriced === 'permit'
      ? 'A request without an amount and without a price counts as 0.'
      : 'A request without an amount and without a price is blocked.',
  ];
}

function rateWords(rate: GateConstraints['rate_limits']): string[] {
  if (!rate) return [];
  const per = rate.per === 'passport' ? ' for each passport' : ' in all';
  return (['minute', 'hour', 'day'] as const).flatMap((unit) => {
    const most = rate[`requests_per_${unit}`];
    if (typeof most !== 'number') return [];
    return [`At most ${most} ${most === 1 ? 'request' : 'requests'} in a ${unit}${per}.`];
  });
}

function approvalWords(approvals: GateConstraints['approvals']): string[] {
  if (!approvals) return [];
  const { above_usd: above, permissions } = approvals;
  const cases = [
    ...(typeof above === 'number' ? [`for more than ${usd(above)}`] : []),
    ...(permissions && permissions.length > 0 ? [`for ${list(permissions, 'or')}`] : []),
  ];
  const time = duration(approvals.expires_in_s ?? 3600);
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

function answerWords({ approvers, passkey }: NonNullable<GateConstraints['approvals']>): string[] {
  const signed = passkey ? ['Each answer is signed with a passkey.'] : [];
  if (!approvers) return signed;
  const { roles, users, count = 1, not_requester: notRequester, not_owner: notOwner } = approvers;
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
    ...signed,
  ];
}
