import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { AgentTrustError, api, type Catalog } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Id } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextArea } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { usd } from '../ui/format.ts';
import { Card, Empty, Facts, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';

type Entry = Catalog['permissions'][number];

const read = (gateId: string, version?: number): Promise<Catalog | null> =>
  api.catalogs.get(gateId, version === undefined ? {} : { version }).catch((error: unknown) => {
    if (error instanceof AgentTrustError && error.code === 'catalog_not_found') return null;
    throw error;
  });

/** What the gate offers, version by version. */
export function CatalogTab({ gateId }: { readonly gateId: string }): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const [isEditing, setEditing] = useState(false);
  const newest = useQuery({ queryKey: ['catalogs', gateId, 'newest'], queryFn: () => read(gateId) });
  const last = newest.data?.version ?? 0;
  const wanted = Number(search['version'] ?? last);
  const version = Number.isInteger(wanted) && wanted >= 1 && wanted <= last ? wanted : last;
  const shown = useQuery({
    queryKey: ['catalogs', gateId, version],
    queryFn: () => read(gateId, version),
    enabled: version > 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const before = useQuery({
    queryKey: ['catalogs', gateId, version - 1],
    queryFn: () => read(gateId, version - 1),
    enabled: version > 1,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (newest.isPending) return <Waiting what="the catalog" />;
  if (newest.isError) return <Problem error={newest.error} onRetry={() => void newest.refetch()} />;
  const edit = may('gates:update') ? (
    <button type="button" className="button primary" onClick={() => setEditing(true)}>
      {last === 0 ? 'Publish a catalog' : 'Publish the next version'}
    </button>
  ) : null;
  const editor = isEditing ? (
    <Editor gateId={gateId} newest={newest.data} onClose={() => setEditing(false)} />
  ) : null;
  if (newest.data === null) {
    return (
      <>
        <Empty title="No catalog" action={edit}>
          A catalog says what the gate offers and at what price. With one, only what is in it is permitted,
          and agents find it by discovery.
        </Empty>
        {editor}
      </>
    );
  }
  const catalog = shown.data ?? null;
  return (
    <div className="stack">
      <div className="row between">
        <div className="filters">
          <Select
            label="Version"
            value={String(version)}
            onChange={(next) => set({ version: next })}
            options={Array.from({ length: Math.min(last, 100) }, (_, index) => {
              const each = last - index;
              return [String(each), each === last ? `${each}, the newest` : String(each)] as const;
            })}
          />
        </div>
        {edit}
      </div>
      {catalog === null ? (
        <Waiting what="this version" />
      ) : (
        <>
          <Card title="What it offers">
            <Entries entries={catalog.permissions} />
          </Card>
          <div className="columns">
            <Card title={version === 1 ? 'The first version' : `What changed since version ${version - 1}`}>
              <Differences before={before.data ?? null} after={catalog} isFirst={version === 1} />
            </Card>
            <Card title="Signature">
              <Facts
                items={[
                  ['Published', <Time key="at" at={catalog.published_at} />],
                  ['Content hash', <Id key="hash" id={catalog.content_hash} what="content hash" />],
                  ['Signing key', <code key="key">{catalog.signing_key_id}</code>],
                ]}
              />
            </Card>
          </div>
        </>
      )}
      {editor}
    </div>
  );
}

function Entries({ entries }: { readonly entries: readonly Entry[] }): ReactNode {
  if (entries.length === 0) return <p className="soft">Nothing: every request is blocked.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="scroll-x" tabIndex={0}>
      <table className="plain">
        <thead>
          <tr>
            <th>Permission</th>
            <th>Name</th>
            <th className="number">Price</th>
            <th>Approval</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.key}>
              <td>
                <code>{entry.key}</code>
              </td>
              <td>{entry.display_name ?? <span className="soft">none</span>}</td>
              <td className="number">{priceOf(entry)}</td>
              <td>{entry.requires_approval ? 'by a person' : 'not needed'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function priceOf({ pricing }: Entry): string {
  if (pricing === null) return 'none';
  const { model, price_cents: cents, currency } = pricing as Record<string, unknown>;
  if (model === 'free') return 'free';
  if (typeof cents !== 'number') return 'free-form';
  const amount = currency === 'USD' ? usd(cents / 100) : `${cents / 100} ${String(currency)}`;
  return `${amount} ${String(model).replace('per_', 'a ').replace('subscription', 'subscription')}`;
}

function Differences({
  before,
  after,
  isFirst,
}: {
  readonly before: Catalog | null;
  readonly after: Catalog;
  readonly isFirst: boolean;
}): ReactNode {
  if (isFirst) return <p className="soft">There is nothing to compare it with.</p>;
  if (before === null) return <Waiting what="the version before" />;
  const was = new Map(before.permissions.map((entry) => [entry.key, entry]));
  const is = new Map(after.permissions.map((entry) => [entry.key, entry]));
  const added = after.permissions.filter(({ key }) => !was.has(key));
  const removed = before.permissions.filter(({ key }) => !is.has(key));
  const changed = after.permissions.flatMap((entry) => {
    const old = was.get(entry.key);
    if (old === undefined) return [];
    const members = (Object.keys(entry) as (keyof Entry)[]).filter(
      (name) => JSON.stringify(entry[name]) !== JSON.stringify(old[name]),
    );
    return members.map((name) => ({ key: entry.key, name, from: old[name], to: entry[name] }));
  });
  if (added.length + removed.length + changed.length === 0) return <p className="soft">Nothing.</p>;
  return (
    <ul className="stack tight">
      {added.map(({ key }) => (
        <li key={`+${key}`}>
          <code className="added">+ {key}</code> is new.
        </li>
      ))}
      {removed.map(({ key }) => (
        <li key={`-${key}`}>
          <code className="removed">− {key}</code> is gone.
        </li>
      ))}
      {changed.map(({ key, name, from, to }) => (
        <li key={`${key} ${name}`}>
          <code>{key}</code> {name.replaceAll('_', ' ')}:{' '}
          <code className="removed">{JSON.stringify(from)}</code> becomes{' '}
          <code className="added">{JSON.stringify(to)}</code>
        </li>
      ))}
    </ul>
  );
}

const example = [
  {
    key: 'orders:create',
    display_name: 'Place an order',
    pricing: { model: 'per_call', price_cents: 5 },
    category: 'orders',
    requires_approval: false,
  },
];

function Editor({
  gateId,
  newest,
  onClose,
}: {
  readonly gateId: string;
  readonly newest: Catalog | null;
  onClose(): void;
}): ReactNode {
  const [json, setJson] = useState(() => JSON.stringify(newest?.permissions ?? example, null, 2));
  const [fault, setFault] = useState<string | null>(null);
  const { set } = useAddress();
  const publish = useAction({
    run: (permissions: Catalog['permissions']) => api.catalogs.publish(gateId, { permissions }),
    changes: ['catalogs', 'gates'],
    done: 'Published.',
    onDone: () => {
      set({ version: undefined });
      onClose();
    },
  });
  const submit = () => {
    try {
      const permissions: unknown = JSON.parse(json);
      if (!Array.isArray(permissions)) return setFault('This must be an array of permissions.');
      setFault(null);
      publish.mutate(permissions);
    } catch (error) {
      setFault(error instanceof Error ? error.message : 'This is not JSON.');
    }
  };
  return (
    <Dialog title="Publish a catalog" onClose={onClose} className="wide">
      <p className="soft">
        A version replaces the whole list and cannot be changed afterwards. A price is in cents: per_call,
        per_minute, subscription or free.
      </p>
      <Form error={publish.error} onSubmit={submit}>
        <TextArea
          label="Permissions"
          param="permissions"
          isCode
          value={json}
          onChange={setJson}
          fault={fault}
        />
        {publish.error === null ? null : <Problem error={publish.error} />}
        <DialogActions onCancel={onClose} submit="Publish" isBusy={publish.isPending} />
      </Form>
    </Dialog>
  );
}
