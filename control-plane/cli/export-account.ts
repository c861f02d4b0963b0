import { stringify } from 'yaml';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { walletAlertAtDefault } from '../../shared/model/wallet.ts';
import { defaultIssuerName } from '../issuers/default-issuer.ts';
import { targetVariable } from './apply-channels.ts';
import { type Found, readAccount, readGates, theOne } from './apply-current.ts';
import { issuerPrefix, type Members } from './apply-desired.ts';
import { UsageError } from './call-api.ts';
import type { Work } from './host.ts';
import { jsonLine } from './print.ts';

const header = '# Written by agent-trust export, without secrets, API keys and passports.\n';

/**
 * `agent-trust export`: the account as a file of `agent-trust apply`, in the order of the names. An empty
 * account that gets the file then exports the same. The default issuer is not in it: each account makes its
 * own. Throws UsageError where two resources share a name.
 */
export async function exportAccount({ client, host, print }: Work): Promise<undefined> {
  const account = await readAccount(client, { wallets: 'if allowed' });
  if (account.wallets === null) print.say('The key may not read wallets: they are not in the file.');
  const issuers = named('issuer', account.issuers);
  const listed = named('gate', account.gates);
  const gates = await readGates(
    client,
    listed.map(({ id }) => id),
    { withCatalogs: true },
  );
  const issuerNames = new Map(issuers.map(({ id, name }) => [id, name]));
  const variables = new Set<string>();
  const file = {
    version: 1,
    wallets: named('wallet', account.wallets ?? new Map()).map(({ name, members }) => ({
      name,
      ...shortened(members, { share: 'pot', alert_at: walletAlertAtDefault, status: 'active' }),
    })),
    issuers: issuers
      // Of pasted keys no answer says more than their names.
      .filter(({ name, isPasted }) => name !== defaultIssuerName && isPasted !== true)
      .map(({ name, members }) => {
        // An id is of one account.
        const { wallet_id: _id, ...rest } = members;
        return { name, ...shortened(rest, { status: 'active' }) };
      }),
    templates: named('template', account.templates).map(({ name, members }) => ({
      name,
      ...shortened(members),
    })),
    gates: listed.flatMap(({ id, name }) => {
      const gate = gates.get(id);
      if (gate === undefined) return [];
      const { constraints, ...members } = gate.members;
      const own = withIssuerNames(constraints as Members, issuerNames);
      const catalog = gate.catalog === null ? {} : { catalog: shortCatalog(gate.catalog) };
      return [{ name, ...shortened({ ...members, constraints: own }), ...catalog }];
    }),
    webhooks: named('webhook', account.webhooks).map(({ name, members }) => ({
      url: name,
      ...shortened(members, { status: 'enabled' }),
    })),
    channels: named('channel', account.channels).map(({ name, members }) => {
      const { target_hash: _hash, ...rest } = members;
      const defaults = { status: 'enabled', after_s: 0 };
      return { name, target_env: targetVariable(name, variables), ...shortened(rest, defaults) };
    }),
  };
  host.output.write(print.isJson ? jsonLine(file) : `${header}${stringify(file, { lineWidth: 0 })}`);
  return undefined;
}

function named(kind: string, found: Found) {
  return [...found.keys()].toSorted().map((name) => {
    const one = theOne(kind, name, found);
    if (one === null) throw new UsageError(`no ${kind} is called "${name}"`);
    return { ...one, name };
  });
}

/** Without members that have their default. */
const shortened = (members: Members, defaults: Members = {}): Members =>
  Object.fromEntries(
    Object.entries(members).filter(([name, value]) => value !== defaults[name] && !isNothing(value)),
  );

const isNothing = (value: unknown): boolean =>
  value === null ||
  (Array.isArray(value) && value.length === 0) ||
  (isJsonObject(value) && Object.keys(value).length === 0);

function shortCatalog({ permissions, ...more }: Members): Members {
  const entries = Array.isArray(permissions) ? permissions : [];
  return { ...more, permissions: entries.map((entry) => shortened(entry, { requires_approval: false })) };
}

/** Ids are of one account, names of the file. */
function withIssuerNames(constraints: Members, names: ReadonlyMap<string, string>): Members {
  const { trusted_issuers: ids } = constraints;
  if (!Array.isArray(ids)) return constraints;
  const named = ids.map((id: string) => (names.has(id) ? `${issuerPrefix}${names.get(id)}` : id));
  return { ...constraints, trusted_issuers: named };
}
