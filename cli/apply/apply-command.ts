import { visible } from '../../shared/model/plain-text.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { agreed } from '../base/agree.ts';
import { CommandError, UsageError } from '../base/call-api.ts';
import { readInput } from '../base/files.ts';
import type { Work } from '../base/host.ts';
import { jsonLine, type Paint, paintFor } from '../base/print.ts';
import { type Account, readAccount } from './apply-current.ts';
import { type ReadFile, readApplyFile } from './apply-file.ts';
import { withKeys } from './apply-keys.ts';
import type { ApplyOptions } from './apply-options.ts';
import { isTemplateOf, planOf, withFutureNames } from './apply-plan.ts';
import { openSecretsFile, PlanIsOld, runSteps, type SecretsFile } from './apply-run.ts';
import { changesOf, type Step } from './apply-steps.ts';
import { backtestChanged, shadowChanged } from './try-policies.ts';

/** Plans in a row, none shorter than all before, that changes of others may spoil. */
const plansMax = 3;

/**
 * `agent-trust apply`: compares a file with the account, shows what differs, asks, and does it. Names tell
 * resources apart, so another run does only what is left.
 */
export async function applyFile(work: Work, options: ApplyOptions): Promise<ExitCode> {
  if (options.file === '-' && options.yes !== true && options.plan !== true)
    throw new UsageError('A file on standard input needs --yes, or --plan: nobody can be asked.');
  const given = readApplyFile(options.file, await readInput(options.file, work.dialogue.stdin));
  let shortest = Number.POSITIVE_INFINITY;
  for (let plans = 1; ; plans++) {
    const account = await readAccount(work.client, { wallets: wantedWallets(given, options) });
    const file = withKeys(given, account, isTemplateOf);
    if (account.wallets === null && options.prune !== undefined)
      work.print.say('The key may not read wallets: none of them is pruned.');
    const steps = await planOf(work, file, account, options.prune ?? null);
    showPlan(work, steps, (text) => withFutureNames(text, file, account));
    if (steps.length === 0) return exitCode.success;
    if (options.backtest !== undefined) await backtestChanged(work, steps, options.backtest);
    if (options.plan === true) return exitCode.changesPlanned;
    if (options.shadow === true) return shadowChanged(work, steps, options);
    refuseLostSecrets(steps, options);
    if (!(await agreed(work, options, `Apply this to ${work.access.origin}?`))) return exitCode.failure;
    try {
      await runWithSecrets(work, steps, { file, account }, options);
      return exitCode.success;
    } catch (error) {
      if (!(error instanceof PlanIsOld)) throw error;
      // Two runs of one file help each other on: it goes on while less is left.
      if (steps.length < shortest) [shortest, plans] = [steps.length, 1];
      if (plans === plansMax)
        throw new CommandError('The account keeps changing meanwhile. Run it again later.');
      work.print.say('Something was changed meanwhile by others. The plan is made anew.');
    }
  }
}

function wantedWallets({ content: { wallets, issuers = [] } }: ReadFile, { prune }: ApplyOptions) {
  const areNamed = issuers.some(({ wallet, wallet_id: id, federation }) =>
    [wallet, id, federation?.wallet_id].some((each) => each !== undefined),
  );
  if (wallets !== undefined || areNamed) return 'needed';
  return prune === undefined ? 'not needed' : 'if allowed';
}

const makesSecrets = (steps: readonly Step[]): boolean =>
  steps.some(
    ({ kind, verb, after }) =>
      verb === 'create' && (kind === 'webhook' || (kind === 'channel' && after['kind'] === 'webhook')),
  );

function refuseLostSecrets(steps: readonly Step[], { secretsFile }: ApplyOptions): void {
  if (!makesSecrets(steps) || secretsFile !== undefined) return;
  throw new UsageError(
    'The secret of a new webhook is shown once: name a file for it with --secrets-file. Nothing was changed.',
  );
}

async function runWithSecrets(
  work: Work,
  steps: readonly Step[],
  of: { readonly file: ReadFile; readonly account: Account },
  { secretsFile }: ApplyOptions,
): Promise<void> {
  const isNeeded = makesSecrets(steps) && secretsFile !== undefined;
  const secrets: SecretsFile | null = isNeeded ? await openSecretsFile(secretsFile) : null;
  try {
    await runSteps(work, steps, { ...of, secrets });
  } finally {
    await secrets?.close();
  }
}

const signs = { create: '+', change: '~', delete: '-' } as const;
const styles = { create: 'green', change: 'yellow', delete: 'red' } as const;

function showPlan({ print, host }: Work, steps: readonly Step[], named: (text: string) => string): void {
  const { output } = host;
  if (print.isJson) {
    for (const { verb, kind, name, id, before, after } of steps)
      output.write(named(jsonLine({ verb, kind, name, id, changes: changesOf(before, after) })));
    return;
  }
  const paint = paintFor(output, host.env);
  for (const step of steps) output.write(named(renderStep(step, paint)));
  const count = (verb: Step['verb']) => steps.filter((step) => step.verb === verb).length;
  output.write(
    steps.length === 0
      ? 'No changes: the account is as the file says.\n'
      : `${count('create')} to create, ${count('change')} to change, ${count('delete')} to delete.\n`,
  );
}

function renderStep({ kind, verb, name, id, before, after }: Step, paint: Paint): string {
  const title = `${signs[verb]} ${kind} ${JSON.stringify(name)}${id === null ? '' : ` ${id}`}`;
  const lines = (verb === 'delete' ? [] : changesOf(before, after)).map((change) => {
    const [old, next] = [JSON.stringify(change.before), JSON.stringify(change.after)];
    const member = change.member.replaceAll('\n', '\\n');
    if (kind === 'channel' && member === 'target') return ['yellow', '    ~ target: changes'] as const;
    if (!('before' in change)) return ['green', `    + ${member}: ${next}`] as const;
    if (!('after' in change)) return ['red', `    - ${member}: ${old}`] as const;
    return ['yellow', `    ~ ${member}: ${old} -> ${next}`] as const;
  });
  return [[styles[verb], title] as const, ...lines]
    .map(([style, line]) => `${paint(style, visible(line))}\n`)
    .join('');
}
