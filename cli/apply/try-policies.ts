import type { BacktestRequest, ShadowPatch } from '../../clients/node/src/generated/api.ts';
import { must } from '../../shared/errors/assert.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { agreed } from '../base/agree.ts';
import { backtestGate, printBacktest } from '../base/backtest.ts';
import { UsageError } from '../base/call-api.ts';
import type { Work } from '../base/host.ts';
import type { ApplyOptions } from './apply-options.ts';
import { isFutureIssuer } from './apply-plan.ts';
import { mergePatchOf, type Step } from './apply-steps.ts';

/** A gate of which the file changes what decides. */
interface ChangedPolicy {
  readonly id: string;
  readonly name: string;
  readonly patch: Pick<BacktestRequest, 'constraints' | 'trust_level' | 'routes'>;
}

/** Of gates that are there: a new one has decided nothing. */
function changedPolicies(steps: readonly Step[]): readonly ChangedPolicy[] {
  return steps.flatMap(({ kind, verb, id, name, before, after }) => {
    if (kind !== 'gate' || verb !== 'change') return [];
    const { constraints, trust_level, routes } = mergePatchOf(before, after) as ChangedPolicy['patch'];
    const patch = {
      ...(constraints === undefined ? {} : { constraints }),
      ...(trust_level === undefined ? {} : { trust_level }),
      ...(routes === undefined ? {} : { routes }),
    };
    if (Object.keys(patch).length === 0) return [];
    const trusted: unknown = constraints?.['trusted_issuers'];
    if (Array.isArray(trusted) && trusted.some((issuer) => isFutureIssuer(String(issuer))))
      throw new UsageError(
        `The gate "${name}" would trust an issuer that does not exist yet: apply that first.`,
      );
    return [{ id: must(id, 'what is changed has an id'), name, patch }];
  });
}

/** Shows of each changed policy what it would have decided since then. */
export async function backtestChanged(work: Work, steps: readonly Step[], since: string): Promise<void> {
  for (const { id, name, patch } of changedPolicies(steps)) {
    const backtest = await backtestGate(work, id, { ...patch, since });
    if (work.print.isJson) work.print.item(backtest);
    else {
      work.host.output.write(`gate ${JSON.stringify(name)} ${id}: `);
      printBacktest(work, backtest);
    }
  }
}

/** Puts changed policies in shadow, and does no other step of the plan. */
export async function shadowChanged(
  work: Work,
  steps: readonly Step[],
  options: ApplyOptions,
): Promise<ExitCode> {
  const changed = changedPolicies(steps);
  const { client, print, access } = work;
  if (changed.length === 0) {
    print.say('No gate of the account would get another policy: there is nothing to try.');
    return exitCode.success;
  }
  const others = steps.length - changed.length;
  if (others > 0) print.say(`${others} other steps of the plan are left out.`);
  const question = `Put ${changed.length} policies in shadow at ${access.origin}?`;
  if (!(await agreed(work, options, question))) return exitCode.failure;
  for (const { id, name, patch } of changed) {
    const shadow = await client.gates.putShadow(id, patch as ShadowPatch);
    print.say(`shadow of gate "${name}" ${id} until ${shadow.expires_at}`);
  }
  return exitCode.success;
}
