import { createHash } from 'node:crypto';
import { reasons } from '../../shared/decision/reasons.ts';
import { policyInWords, type SaidConstraints } from '../../shared/model/policy-in-words.ts';
import type { SignedApproval } from '../../shared/wire/evidence/evidence.ts';
import { count, counted } from '../base/count-words.ts';
import type { PackCheck } from './check-pack.ts';
import { isSoundPack } from './check-pack.ts';
import { attribute, escaped, html, type Shown, table } from './pack-html.ts';
import { packFiles } from './pack-scope.ts';
import { type NamedDecision, pageLimits, type Sums } from './pack-totals.ts';

/**
 * The page of a pack, for people: what the files beside it say, in words. It is made of what `checkPack`
 * found and nothing else, so that whoever has the files makes the same page. No script, no resource of
 * elsewhere.
 */
export function renderPackPage(check: PackCheck): string {
  const rules = numberedRules(check);
  const sections = [
    summary(check),
    totals(check),
    decisions(check, rules),
    refusals(check, rules),
    ruleSection(check, rules),
    approvals(check),
    verified(check),
    notVerified(check),
    byYourself(check),
  ];
  const hash = createHash('sha256').update(style).digest('base64');
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${hash}'">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Record of decisions about agents</title>',
    `<style>${style}</style>`,
    '</head>',
    '<body>',
    '<main>',
    ...sections,
    '</main>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}

const style = `
:root { color-scheme: light dark; --text: #1a1a1a; --back: #ffffff; --line: #c8c8c8; --soft: #f3f3f3;
  --good: #0b5c2a; --bad: #9c1010; --quiet: #595959; }
@media (prefers-color-scheme: dark) { :root { --text: #ececec; --back: #161616; --line: #4a4a4a; --soft: #232323;
  --good: #7bd88f; --bad: #ff9c9c; --quiet: #b4b4b4; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 0.5rem; } h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem;
  border-top: 1px solid var(--line); padding-top: 1rem; } h3 { font-size: 1rem; margin: 1rem 0 0.25rem; }
p, ul, ol { margin: 0.5rem 0; } .quiet { color: var(--quiet); } .good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.5rem; text-align: left; vertical-align: top; }
thead th { background: var(--soft); } td.number, th.number { text-align: right; white-space: nowrap; }
bdi, code { overflow-wrap: anywhere; } code, pre { font-family: ui-monospace, monospace; font-size: 0.85rem; }
pre { background: var(--soft); border: 1px solid var(--line); padding: 0.75rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media print { :root { --text: #000; --back: #fff; --soft: #fff; --line: #888; --good: #000; --bad: #000;
  --quiet: #333; } main { max-width: none; padding: 0; } .wide { overflow: visible; }
  tr, h2, h3 { break-inside: avoid; } h2, h3 { break-after: avoid; } thead { display: table-header-group; } }
`;

/** From micro-USD: at least two decimals, at most six. */
function money(amount: bigint | number): string {
  const units = BigInt(amount);
  const [sign, size] = units < 0n ? ['-', -units] : ['', units];
  const decimals = String(size % 1_000_000n)
    .padStart(6, '0')
    .replace(/0{1,4}$/, '');
  return `${sign}$${(size / 1_000_000n).toLocaleString('en-US')}.${decimals}`;
}

const time = (text: string | null | undefined): Shown =>
  text === null || text === undefined
    ? '-'
    : html(
        `<time datetime="${attribute(text)}">${escaped(text.replace('T', ' ').replace('Z', ' UTC'))}</time>`,
      );

const section = (id: string, title: string, ...parts: readonly string[]): string =>
  [`<section aria-labelledby="${id}">`, `<h2 id="${id}">${title}</h2>`, ...parts, '</section>'].join('\n');

const paragraph = (text: Shown): string => `<p>${escaped(text)}</p>`;
const listed = (items: readonly Shown[]): string =>
  items.length === 0 ? '' : `<ul>\n${items.map((item) => `<li>${escaped(item)}</li>`).join('\n')}\n</ul>`;

function summary(check: PackCheck): string {
  const { scope, totals: found, verdict } = check;
  const about = [
    scope.gate_id === null ? 'all gates' : html(`the gate <code>${escaped(scope.gate_id)}</code>`),
    scope.passport_id === null
      ? 'all passports'
      : html(`the passport <code>${escaped(scope.passport_id)}</code>`),
  ];
  const { permitted, asked, refused, spent, held, refunded } = found.all;
  const ends = [...found.ends].sort().map(([end, times]) => `${count(times)} ${end}`);
  const verdictText = isSoundPack(check)
    ? '<p class="good">The records below verify: nothing in these files contradicts another.</p>'
    : '<p class="bad">NOT OK: these files contradict each other. See “What was verified”.</p>';
  return [
    '<h1>Record of decisions about agents</h1>',
    `<p>What agents asked for, and what was answered: decisions from ${escaped(time(scope.since))} (included) to ` +
      `${escaped(time(scope.until))} (excluded), at ${escaped(about[0] ?? '')}, with ${escaped(about[1] ?? '')}.</p>`,
    verdictText,
    listed([
      `${counted(permitted, 'request')} permitted`,
      `${counted(refused, 'request')} refused`,
      `${counted(asked, 'request')} put before a person and ended${ends.length === 0 ? '' : `: ${ends.join(', ')}`}`,
      `${money(spent)} spent, ${money(held)} still held at the end of the period, ${money(refunded)} refunded`,
      ...(found.all.takenBack === 0
        ? []
        : [`${count(found.all.takenBack)} of these taken back, because the answer was not used`]),
    ]),
    '<p class="quiet">An agent is a program. A passport is what it shows to say who it is and what it may do. A gate ' +
      'is what stands before a service and answers: permitted, refused, or a person decides. Each answer left a ' +
      `signed record in <code>${packFiles.records}</code>; this page says what is in there.` +
      `${verdict.valid ? ` That file has ${counted(verdict.records, 'record')}.` : ''}</p>`,
  ].join('\n');
}

const sumColumns = ['Permitted', 'Refused', 'Ended by a person', 'Spent', 'Held', 'Refunded'] as const;
const sumCells = (sums: Sums): Shown[] => [
  ...[sums.permitted, sums.refused, sums.asked].map(count),
  ...[sums.spent, sums.held, sums.refunded].map(money),
];

function totals({ totals: found, passports }: PackCheck): string {
  const groups = (
    title: string,
    name: string,
    map: ReadonlyMap<string, Sums>,
    more: (id: string) => Shown[] = () => [],
  ) => {
    const rows = [...map].sort(([one], [other]) => (one < other ? -1 : 1));
    const columns = [name, ...(more('').length > 0 ? ['Agent'] : [])];
    return [
      `<h3>${title}</h3>`,
      table({
        caption: title,
        columns: [...columns, ...sumColumns],
        numbersFrom: columns.length,
        rows: rows
          .slice(0, pageLimits.groupsMax)
          .map(([id, sums]) => [id === '' ? 'all others' : id, ...more(id), ...sumCells(sums)]),
      }),
      unnamed(rows.length - pageLimits.groupsMax, 'more'),
    ].join('\n');
  };
  const agent = (id: string): Shown[] => {
    const body = passports.get(id);
    return [body?.agent_name === undefined ? '-' : `${body.agent_name} (${body.agent_id ?? ''})`];
  };
  return section(
    'totals',
    'Totals',
    paragraph(
      'Spent is what a permitted request counts in the end: the amount of the last record that refers to it, else ' +
        'its own. Held money was set aside, and had not been settled when the period ended. What was settled for ' +
        'less, released or refunded is not in these sums.',
    ),
    ...(found.earlier === 0
      ? []
      : [
          paragraph(
            `Records of money in this period about requests from before it, whose money is not in these sums: ${count(found.earlier)}.`,
          ),
        ]),
    groups('By gate', 'Gate', found.gates),
    groups('By passport', 'Passport', found.passports, agent),
    groups('By permission', 'Permission', found.permissions),
  );
}

const unnamed = (more: number, what: string): string =>
  more <= 0
    ? ''
    : `<p class="quiet">${count(more)} ${what} not named here are in <code>${packFiles.records}</code>.</p>`;

/** By hash, in the order of the first decision under each; '' is last. */
function numberedRules({ totals: found }: PackCheck): ReadonlyMap<string, number> {
  const known = [...found.rules.keys()].filter((hash) => hash !== '');
  return new Map(known.map((hash, place) => [hash, place + 1]));
}

const ruleName = (rules: ReadonlyMap<string, number>, hash: string | null | undefined): Shown => {
  const number = rules.get(hash ?? '');
  if (number === undefined) return 'not on record';
  return number > pageLimits.rulesMax
    ? `Rule ${number}`
    : html(`<a href="#rule-${number}">Rule ${number}</a>`);
};

function decisions({ totals: found }: PackCheck, rules: ReadonlyMap<string, number>): string {
  return section(
    'permitted',
    'What was permitted',
    decisionTable('Permitted requests', found.permitted, [
      ['Amount', ({ record }) => amountOf(record.amount_micro_usd)],
      [
        'Counts in the end',
        ({ counts, isHeld, isTakenBack }) =>
          isTakenBack ? 'taken back' : `${amountOf(counts)}${isHeld ? ' (held)' : ''}`,
      ],
      ['Rule', ({ record }) => ruleName(rules, record.policy_hash)],
      ['Approval', ({ record }) => record.approval_id ?? '-'],
    ]),
    unnamed(found.all.permitted - found.permitted.length, 'permitted requests'),
  );
}

const amountOf = (amount: number | null): string => (amount === null ? '-' : money(amount));

function decisionTable(
  caption: string,
  named: readonly NamedDecision[],
  columns: readonly (readonly [string, (each: NamedDecision) => Shown])[],
): string {
  if (named.length === 0) return paragraph('None.');
  const all: typeof columns = [
    ['Time', ({ record }) => time(record.timestamp)],
    ['Passport', ({ record }) => record.passport_id ?? 'none that verified'],
    ['Gate', ({ record }) => record.gate_id ?? '-'],
    ['Permission', ({ record }) => record.permission_key ?? '-'],
    ['Domain', ({ record }) => record.domain ?? '-'],
    ...columns,
    ['Record', ({ record }) => record.id],
  ];
  return table({
    caption,
    columns: all.map(([title]) => title),
    rows: named.map((each) => all.map(([, of]) => of(each))),
  });
}

/** Words may grow in number: a newer service has others. */
const sentenceOf = (reason: string): string =>
  (reasons as Readonly<Record<string, { readonly detail: string }>>)[reason]?.detail ?? reason;

function refusals({ totals: found }: PackCheck, rules: ReadonlyMap<string, number>): string {
  const why = [...found.decisions]
    .filter(([name]) => name.startsWith('BLOCK '))
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, times]) => {
      const reason = name.slice('BLOCK '.length);
      return [reason, sentenceOf(reason), count(times)];
    });
  return section(
    'refused',
    'What was refused, and why',
    why.length === 0
      ? paragraph('Nothing.')
      : table({ caption: 'Reasons', columns: ['Reason', 'In words', 'Times'], numbersFrom: 2, rows: why }),
    ...(why.length === 0
      ? []
      : [
          decisionTable('Refused requests', found.refused, [
            ['Amount', ({ record }) => amountOf(record.amount_micro_usd)],
            ['Reason', ({ record }) => record.reason ?? '-'],
            ['Rule', ({ record }) => ruleName(rules, record.policy_hash)],
          ]),
          unnamed(found.all.refused - found.refused.length, 'refused requests'),
        ]),
  );
}

function ruleSection({ totals: found, policies }: PackCheck, rules: ReadonlyMap<string, number>): string {
  const parts = [...rules].slice(0, pageLimits.rulesMax).map(([hash, number]) => {
    const body = policies.get(hash);
    const decided = `${counted(found.rules.get(hash) ?? 0, 'decision')} under this rule.`;
    const heading = `<h3 id="rule-${number}">Rule ${number}</h3>`;
    const fingerprint = paragraph(html(`Fingerprint <code>${escaped(hash)}</code>. ${escaped(decided)}`));
    if (body === undefined) return `${heading}\n${paragraph('The file does not have it.')}\n${fingerprint}`;
    return `${heading}\n${listed(ruleInWords(body))}\n${fingerprint}`;
  });
  const unknown = found.rules.get('') ?? 0;
  return section(
    'rules',
    'The rules that were in force',
    ...(parts.length === 0 ? [paragraph('No decision names its rule.')] : parts),
    unnamed(rules.size - pageLimits.rulesMax, 'rules'),
    ...(unknown === 0 ? [] : [paragraph(`Decisions that name no rule: ${count(unknown)}.`)]),
  );
}

/** What of a body no sentence says is shown as it is: another version of the service may have made it. */
function ruleInWords(body: Readonly<Record<string, unknown>>): Shown[] {
  const {
    trust_level: level,
    constraints,
    routes,
    catalog_version: version,
    catalog_hash: _hash,
    ...rest
  } = body;
  const given = (
    typeof constraints === 'object' && constraints !== null ? constraints : {}
  ) as SaidConstraints & Record<string, unknown>;
  const more = { ...unsaid(given), ...rest };
  return [
    ...policyInWords(String(level), given),
    ...(Array.isArray(routes) ? routes : []).map((route) => `A route: ${JSON.stringify(route)}.`),
    version === null
      ? 'No catalog of permissions is published.'
      : `Version ${version} of the catalog of permissions holds.`,
    ...Object.entries(more).map(([name, value]) => `${name}: ${JSON.stringify(value)}`),
  ];
}

const said: ReadonlySet<string> = new Set([
  ...['trusted_issuers', 'allowed_domains', 'proof_of_possession', 'pii_controls', 'spend_limits'],
  ...['rate_limits', 'approvals'],
]);
const unsaid = (constraints: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(constraints).filter(([name]) => !said.has(name)));

function approvals({ approvals: all, approvalsUnnamed, totals: { all: sums } }: PackCheck): string {
  const waited =
    sums.asked === 0
      ? 'No request that was put before a person ended in the period.'
      : 'The file has none of them.';
  return section(
    'approvals',
    'Who approved',
    ...(all.length === 0
      ? [paragraph(waited)]
      : [
          paragraph(
            'People are named by their ids (usr_...), keys of programs by theirs (key_...): names are in no export. ' +
              'The account that owns them knows who they are.',
          ),
          table({
            caption: 'Approvals',
            columns: ['Approval', 'What was asked', 'Answers', 'Resolved'],
            rows: all.map(approvalRow),
          }),
        ]),
    unnamed(approvalsUnnamed, 'approvals'),
  );
}

function approvalRow(body: SignedApproval['body']): Shown[] {
  const { approval_id: id, permission_key: permission, amount_micro_usd: amount, answers } = body;
  if (body.removed === true) return [id, 'removed by the service since', '-', '-'];
  if (body.each_micro_usd !== undefined) {
    return [
      id,
      html(
        `Ahead: ${escaped(permission ?? '-')}, each up to ${money(body.each_micro_usd)}, ` +
          `${money(body.total_micro_usd ?? 0)} in all${body.owner === undefined ? '' : `, for passports of ${escaped(body.owner)}`}, ` +
          `until ${escaped(time(body.expires_at))}`,
      ),
      html(`approved ahead by ${escaped(body.created_by ?? '-')} at ${escaped(time(body.created_at))}`),
      body.ended_at === null || body.ended_at === undefined
        ? 'not ended'
        : html(`ended by ${escaped(body.ended_by ?? '-')} at ${escaped(time(body.ended_at))}`),
    ];
  }
  const given = (answers ?? []).map(
    ({ user_id, answer, at, undone_at, assertion }) =>
      `${escaped(user_id)} ${escaped(answer)} at ${escaped(time(at))}, ` +
      `${assertion === null ? 'not signed by a passkey' : 'signed with a passkey'}` +
      `${undone_at === null ? '' : `, taken back at ${escaped(time(undone_at))}`}`,
  );
  return [
    id,
    html(
      `${escaped(permission ?? '-')}, ${escaped(amountOf(amount ?? null))}, asked at ${escaped(time(body.created_at))}`,
    ),
    given.length === 0 ? 'no person on record' : html(given.join('<br>')),
    body.resolved_at === null || body.resolved_at === undefined
      ? 'not answered, or expired'
      : html(`by ${escaped(body.resolved_by ?? '-')} at ${escaped(time(body.resolved_at))}`),
  ];
}

function verified(check: PackCheck): string {
  const { verdict, log, replay, chains } = check;
  const items: Shown[] = [];
  if (verdict.valid)
    items.push(
      `Every record is signed with a key of the service, was not changed, and stands in its place: ${counted(verdict.records, 'record')} in ${counted(verdict.chains, 'chain')}. Each record names the fingerprint of the one before, so that none can be taken out, added or moved within a chain. (docs/verify.md)`,
      'The rules, passports and approvals that the records name are all there, and signed by the service. Each answer with a passkey was checked against what the person signed. (docs/verify.md)',
    );
  else
    items.push(
      html(
        `<span class="bad">The records do not verify:</span> line ${verdict.line}${verdict.chain_id === null ? '' : `, chain ${escaped(verdict.chain_id)}`}: ${escaped(verdict.fault)}.`,
      ),
    );
  if (log !== null && log.fault !== null)
    items.push(html(`<span class="bad">A proof of the log does not hold:</span> ${escaped(log.fault)}.`));
  else if (log !== null) {
    const by =
      log.witnesses === null || log.witnesses.length === 0
        ? ''
        : `, which these witnesses cosigned after they saw that the log only grew: ${log.witnesses.join(', ')}`;
    items.push(
      `The public log ${log.origin} has ${count(chains.proven)} of these ${counted(chains.all, 'chain')} in its tree of ${log.size === 1 ? '1 entry' : `${count(log.size)} entries`}${by}. (docs/log.md)`,
    );
  }
  if (replay !== null) {
    const agreed = Object.values(replay.decisions).reduce((sum, { agrees }) => sum + agrees, 0);
    const wrong = replay.contradictions.length + replay.contradictions_unnamed;
    const over = replay.over_limits.length + replay.over_limits_unnamed;
    items.push(
      `Every decision of the file was made again from the rules in it: ${count(agreed)} came out alike. (docs/replay.md)`,
      ...(wrong + over === 0
        ? []
        : [
            html(
              `<span class="bad">Decisions that came out otherwise: ${count(wrong)}; limits that were passed: ${count(over)}.</span>`,
            ),
          ]),
      ...replay.contradictions
        .slice(0, 20)
        .map(({ id, decision, reason, fault }) => `${id}: ${decision} ${reason ?? ''}: ${fault}`),
    );
  }
  return section('verified', 'What was verified, and how', listed(items));
}

function notVerified(check: PackCheck): string {
  const { verdict, log, replay, chains, unproven, totals: found, broken, scope } = check;
  const items: Shown[] = [];
  if (log === null)
    items.push(
      'No public log has these records: nothing here shows that no record was cut off the end of a chain, nor that the service has not written another history.',
    );
  else if (log.witnesses === null || log.witnesses.length === 0)
    items.push(
      'No witness: the policy in this pack asks for no cosignature, so the service alone vouches that its log has only grown.',
    );
  if (log !== null && unproven > 0)
    items.push(
      `Records of the period that are newer than what the log had, or in chains that it did not have: ${count(unproven)}. Records that followed them may have been cut off.`,
    );
  if (chains.cut > 0)
    items.push(
      `Chains that begin here later than with their first record: ${count(chains.cut)}. What came before is not in this file, and was not checked.`,
    );
  if (broken.broken !== undefined)
    items.push(
      `Chains of this account that are not whole in the database, as the service says itself: ${count(broken.broken.length + (broken.broken_unnamed ?? 0))}.`,
    );
  for (const [why, times] of Object.entries(replay?.unjudged ?? {}))
    items.push(
      `Decisions that could not be made again, because ${unjudgedWords[why] ?? why}: ${count(times)}.`,
    );
  if (verdict.valid && replay === null)
    items.push('No decision was made again: a newer version of the program is needed for it.');
  if (verdict.valid && verdict.compromised + verdict.compromised_statements > 0)
    items.push(
      html(
        `<span class="bad">Signatures by a key that was declared compromised: ${count(verdict.compromised + verdict.compromised_statements)}.</span> They do not show who signed.`,
      ),
    );
  if (verdict.valid && verdict.removed_approvals > 0)
    items.push(
      `Approvals that the service has removed since, so that nothing shows who answered: ${count(verdict.removed_approvals)}.`,
    );
  if (found.tests > 0)
    items.push(`Tests of gates in the period, which count nowhere: ${count(found.tests)}.`);
  items.push(
    html(
      `Whether the keys in <code>${packFiles.jwks}</code> are those of the service: fetch them yourself, and compare (below).`,
    ),
    'Which rule was in force, what was found in a request, and the time of each decision: that is the word of the program that decided.',
    html(
      `Passports and approvals are as the service stated them, as of ${escaped(time(scope.as_of))}. Who the people behind the ids are.`,
    ),
    'What passports of other accounts did at these gates: their records are in the exports of those accounts.',
    'Requests that waited for a person when the period ended: they come on record with their end.',
    'That what was paid or delivered is what was permitted. The records say what was answered.',
  );
  return section('not-verified', 'What was not verified', listed(items));
}

const unjudgedWords: Readonly<Record<string, string>> = {
  form_1: 'they come from before records named their rule',
  members: 'a newer version of the service made the record',
  policy_missing: 'the rule is not on record',
  policy_unknown: 'a newer version of the service made the rule',
  passport_removed: 'the service has the passport no more',
  passport_federated: 'another issuer made the passport, and what it allows is not in the file',
  passport_history: 'the passport was suspended more often than the file says',
  approval_removed: 'the approval is not in the file',
  approval_before: 'the approval ended before the file begins',
  token: 'no passport verified',
  standing: 'an owner, issuer, account or wallet was stopped, which the file does not show',
  mode: 'the file does not say whether the gate was a test',
  proof: 'the proof of possession is not in the file',
  request: 'the request is not in the file',
  withheld: 'the record leaves out personal data on which it depends',
  approval: 'the record does not name the approval that was shown',
  units: 'what others had taken of a limit at that moment is not in the file',
  ledger: 'what was left of a limit was not known at that moment',
  pending: 'how many requests waited is not in the file',
};

function byYourself({ scope, log }: PackCheck): string {
  const page = packFiles.page;
  return section(
    'yourself',
    'How to verify it yourself',
    paragraph(
      'In the folder of this page, with Node.js 20 or newer, or with Python 3.9 or newer, and no network:',
    ),
    `<pre>node ${packFiles.verifier}\npython3 verify.py</pre>`,
    paragraph(
      html(
        `Both read the files beside them and nothing else, and end with exit code 0 where all of it holds and 5 where it does not. The first also makes this page again from the records, and compares: <code>${page}</code> says nothing that they do not say.`,
      ),
    ),
    paragraph(
      'A pack that cheats can bring its own verifier, its own keys and its own witnesses. So take these from elsewhere: the verifier with the program agent-trust, the keys from the service itself, and the policy of the log from whom you believe:',
    ),
    `<pre>curl -sS https://&lt;the service&gt;/.well-known/jwks.json &gt; own-jwks.json\nnpx agent-trust evidence verify . --jwks own-jwks.json${log === null ? '' : ' --log-policy own.policy'}</pre>`,
    `<p class="quiet">Made with agent-trust ${escaped(scope.made_with)}. The same files make this same page, byte for byte.</p>`,
  );
}
