import { open } from 'node:fs/promises';
import { AgentTrustError, NotFoundError, PreconditionFailedError } from '../../clients/node/src/errors.ts';
import type {
  CatalogPublication,
  GateCreation,
  GatePatch,
  IssuerCreation,
  IssuerUpdate,
  TemplateCreation,
  WebhookCreation,
  WebhookUpdate,
} from '../../clients/node/src/generated/api.ts';
import { must } from '../../shared/errors/assert.ts';
import { CommandError, UsageError } from '../base/call-api.ts';
import type { Work } from '../base/host.ts';
import { given } from '../base/options.ts';
import { jsonLine } from '../base/print.ts';
import { changeChannel, createChannelOf, type DesiredChannel, desiredChannels } from './apply-channels.ts';
import type { Account } from './apply-current.ts';
import { desiredOf } from './apply-desired.ts';
import type { ReadFile } from './apply-file.ts';
import { knownOf } from './apply-plan.ts';
import { mergePatchOf, onlyNew, type Step } from './apply-steps.ts';
import { runWalletStep, type WalletIds, withWalletId } from './apply-wallets.ts';

/** Something in the plan has changed since it was made. */
export class PlanIsOld extends Error {}

/** A file for the secrets of new webhooks, open for adding. */
export interface SecretsFile {
  add(secret: object): Promise<void>;
  close(): Promise<void>;
}

/** Opens the file for its owner alone. Throws UsageError where others can read it. */
export async function openSecretsFile(path: string): Promise<SecretsFile> {
  const handle = await open(path, 'a', 0o600).catch((error: Error) => {
    throw new UsageError(`${path} cannot be written: ${error.message}`);
  });
  const { mode } = await handle.stat();
  if ((mode & 0o077) !== 0) {
    await handle.close();
    throw new UsageError(`${path} is open to other users, and is to hold secrets. Run chmod 0600 ${path}.`);
  }
  return {
    add: async (secret) => {
      await handle.writeFile(jsonLine(secret));
      await handle.sync();
    },
    close: () => handle.close(),
  };
}

/**
 * Does one step after another, and says so. Throws PlanIsOld where a resource is not as the plan saw it, and
 * CommandError where a step is refused: what was done stays done, and another run goes on from there.
 */
export async function runSteps(
  { client, print, access, host }: Work,
  steps: readonly Step[],
  of: { readonly file: ReadFile; readonly account: Account; readonly secrets: SecretsFile | null },
): Promise<void> {
  const wallets = new Map<string, string>();
  const walletIdOf: WalletIds = (key) => wallets.get(key) ?? of.account.wallets?.get(key)?.id ?? null;
  const issuers = new Map<string, string>();
  const gates = new Map<string, string>();
  const channels = desiredChannels(of.file, of.account, host.env);
  for (const [place, step] of steps.entries()) {
    try {
      const made = { walletIdOf, gates, channels, account: of.account, secrets: of.secrets };
      const id = await runStep(client, resolved(step, of, issuers), made);
      if (step.kind === 'wallet') wallets.set(step.key, id);
      if (step.kind === 'issuer') issuers.set(step.key, id);
      if (step.kind === 'gate') gates.set(step.key, id);
      print.say(`${step.verb}d ${step.kind} "${step.name}" ${id}`);
    } catch (error) {
      const isOld = error instanceof PreconditionFailedError || error instanceof NotFoundError;
      if (isOld || (error instanceof AgentTrustError && error.code === 'channel_name_conflict'))
        throw new PlanIsOld();
      if (!(error instanceof AgentTrustError)) throw error;
      const done = place === 0 ? 'Nothing was changed.' : `${place} of ${steps.length} steps are done.`;
      throw new CommandError(
        `${step.kind} "${step.name}" at ${access.origin}: ${error.code}: ${error.message} ${done} Run it again to go on.`,
      );
    }
  }
}

/** With the ids of issuers that this run has created. */
function resolved(
  step: Step,
  { file, account }: { readonly file: ReadFile; readonly account: Account },
  issuers: ReadonlyMap<string, string>,
): Step {
  if (step.kind !== 'gate' || step.verb === 'delete' || issuers.size === 0) return step;
  const { gates } = desiredOf(file, knownOf(account, issuers));
  return {
    ...step,
    after: must(
      gates.find(({ key }) => key === step.key),
      'a gate of the file',
    ).members,
  };
}

/** What steps before this one have made, and what it may need of file and account. */
interface Made {
  readonly walletIdOf: WalletIds;
  readonly gates: ReadonlyMap<string, string>;
  readonly channels: readonly DesiredChannel[];
  readonly account: Account;
  readonly secrets: SecretsFile | null;
}

/** Resolves to the id. */
async function runStep(client: Work['client'], step: Step, made: Made): Promise<string> {
  const { gates, secrets, walletIdOf } = made;
  const { kind, key, id, etag, before } = step;
  if (kind === 'wallet') return runWalletStep(client, step, walletIdOf);
  const after = kind === 'issuer' ? withWalletId(step.after, walletIdOf) : step.after;
  const ifMatch = given({ ifMatch: etag });
  if (kind === 'catalog') {
    const gateId = id ?? must(gates.get(key), 'a gate is made before its catalog');
    await client.catalogs.publish(gateId, after as CatalogPublication);
    return gateId;
  }
  if (step.verb === 'delete') {
    const gone = must(id, 'what is deleted has an id');
    if (kind === 'gate') await client.gates.delete(gone, ifMatch);
    else await client.webhooks.delete(gone);
    return gone;
  }
  if (kind === 'channel') return runChannelStep(client, step, made);
  if (id === null) return create(client, { ...step, after }, secrets);
  if (kind === 'gate') await client.gates.update(id, mergePatchOf(before, after) as GatePatch, ifMatch);
  if (kind === 'issuer') {
    const { domain: _fixed, trust_tier: _fixedToo, ...body } = after;
    await client.issuers.update(id, body as IssuerUpdate);
  }
  if (kind === 'webhook') await client.webhooks.update(id, after as WebhookUpdate);
  return id;
}

/** One that exists is changed; one that does not is made, for a gate that may be new itself. */
async function runChannelStep(
  client: Work['client'],
  { key, name, id }: Step,
  { gates, channels, account, secrets }: Made,
): Promise<string> {
  const channel = must(
    channels.find((each) => each.key === key),
    'a channel of the file',
  );
  if (id !== null) {
    await changeChannel(client, id, channel);
    return id;
  }
  const gate = channel.members['gate'] as string | null;
  const gateId = gate === null ? null : (gates.get(gate) ?? account.gates.get(gate)?.id ?? null);
  const { channel_id, secret } = await createChannelOf(client, channel, gateId);
  if (secret !== undefined)
    await must(secrets, 'a file for secrets is open').add({ channel_id, name, secret });
  return channel_id;
}

async function create(client: Work['client'], step: Step, secrets: SecretsFile | null): Promise<string> {
  const { kind, name, after } = step;
  const condition = onlyNew(step);
  switch (kind) {
    case 'issuer': {
      const { status, ...body } = after;
      const made = await client.issuers.create({ ...body, name } as IssuerCreation, condition);
      if (status === 'suspended') await client.issuers.update(made.issuer_id, { status });
      return made.issuer_id;
    }
    case 'template':
      return (await client.templates.create({ ...after, name } as TemplateCreation, condition)).template_id;
    case 'webhook': {
      const { status, ...body } = after;
      const made = await client.webhooks.create(
        { ...body, url: name } as unknown as WebhookCreation,
        condition,
      );
      const { webhook_id, url, secret } = made;
      await must(secrets, 'a file for secrets is open').add({ webhook_id, url, secret });
      if (status === 'disabled') await client.webhooks.update(webhook_id, { status });
      return webhook_id;
    }
    default:
      return (await client.gates.create({ ...after, name } as unknown as GateCreation, condition)).gate_id;
  }
}
