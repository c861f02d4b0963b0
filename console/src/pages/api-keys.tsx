import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { holdsScope, parseScope, type Scope, scopes } from '../../../shared/model/scopes.ts';
import { useAddress } from '../api/address.ts';
import { type ApiKey, api, type NewApiKey } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Id, Secret } from '../ui/copy.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

/** What a key is usually for; the scopes can be changed afterwards. */
const purposes: readonly { readonly label: string; readonly scopes: readonly Scope[] }[] = [
  { label: 'Ask gates for decisions', scopes: ['enforcement:check'] },
  { label: 'Issue and revoke passports', scopes: ['passports:issue', 'passports:read', 'passports:revoke'] },
  {
    label: 'Read for an auditor',
    scopes: ['attestations:read', 'audit:read', 'gates:read', 'passports:read'],
  },
  { label: 'Connect a sidecar', scopes: ['sidecars:connect'] },
];

/** What each scope allows, in words. */
const scopeWords: Readonly<Partial<Record<Scope, string>>> = {
  'passports:issue': 'issue passports',
  'passports:read': 'look at passports',
  'passports:revoke': 'revoke and suspend passports',
  'gates:create': 'create gates',
  'gates:read': 'look at gates and test them',
  'gates:update': 'change gates and publish catalogs',
  'gates:manage': 'everything with gates',
  'issuers:create': 'create issuers',
  'issuers:read': 'look at issuers',
  'issuers:update': 'change issuers',
  'templates:read': 'look at templates',
  'templates:create': 'create templates',
  'enforcement:check': 'ask for decisions',
  'enforcement:delegate': 'name agents without their passports (AuthZEN)',
  'attestations:read': 'read and export records of decisions',
  'audit:read': 'read who changed what',
  'approvals:read': 'look at approvals',
  'approvals:resolve': 'approve and deny',
  'webhooks:manage': 'everything with webhooks',
  'keys:manage': 'make other API keys, and manage people',
  'users:manage': 'invite, change and remove people',
  'sidecars:connect': 'connect a sidecar',
  'admin:*': 'everything',
};
const offered = scopes.filter((scope) => scopeWords[scope] !== undefined);

export default function ApiKeysPage(): ReactNode {
  const { search, set } = useAddress();
  const source = useCountedList<ApiKey>(['api-keys', 'list'], (page) => api.apiKeys.list(page));
  const [rolled, setRolled] = useState<ApiKey | null>(null);
  const [deleted, setDeleted] = useState<ApiKey | null>(null);
  const create = (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Create a key
    </button>
  );
  return (
    <>
      <PageHead title="API keys" actions={create}>
        For your programs. Give each program a key of its own, with no more scopes than it needs.
      </PageHead>
      <DataTable
        label="API keys"
        source={source}
        empty={
          <Empty title="No API keys" action={create}>
            Your service needs a key to ask gates for decisions.
          </Empty>
        }
        columns={[
          {
            head: 'Name',
            width: 'minmax(0, 1.6fr)',
            cell: (row) => (
              <div className="two-lines">
                <span>{row.name}</span>
                <code>
                  {row.prefix}…{row.last4}
                </code>
              </div>
            ),
          },
          {
            head: 'Scopes',
            width: 'minmax(0, 2fr)',
            isWideOnly: true,
            cell: (row) => <code title={row.scopes.join(', ')}>{row.scopes.join(', ')}</code>,
          },
          {
            head: 'Last used',
            width: '110px',
            isWideOnly: true,
            cell: (row) => <Ago at={row.last_used_at} />,
          },
          { head: 'Ends', width: '110px', isWideOnly: true, cell: (row) => <Ago at={row.expires_at} /> },
          {
            head: 'Actions',
            width: '132px',
            cell: (row) => (
              <span className="row">
                <button
                  type="button"
                  className="button small"
                  aria-label={`Roll ${row.name}`}
                  onClick={() => setRolled(row)}
                >
                  Roll
                </button>
                <button
                  type="button"
                  className="button small danger"
                  aria-label={`Delete ${row.name}`}
                  onClick={() => setDeleted(row)}
                >
                  Delete
                </button>
              </span>
            ),
          },
        ]}
      />
      {search['new'] === '1' ? <CreateDialog onClose={() => set({ new: undefined })} /> : null}
      {rolled === null ? null : <RollDialog apiKey={rolled} onClose={() => setRolled(null)} />}
      {deleted === null ? null : <DeleteDialog apiKey={deleted} onClose={() => setDeleted(null)} />}
    </>
  );
}

function CreateDialog({ onClose }: { onClose(): void }): ReactNode {
  const { may, session } = useSession();
  const held = session.scopes.map(parseScope).filter((scope) => scope !== null);
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState<readonly Scope[]>(['enforcement:check']);
  const [days, setDays] = useState('');
  const create = useAction({
    run: () =>
      api.apiKeys.create({
        name: name.trim(),
        scopes: chosen,
        ...(days === ''
          ? {}
          : { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() }),
      }),
    changes: ['api-keys'],
  });
  if (create.data !== undefined) return <NewKeyDialog made={create.data} onClose={onClose} />;
  return (
    <Dialog title="Create an API key" onClose={onClose} className="wide">
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        <TextField
          label="Name"
          param="name"
          hint="What the key is for, such as: orders service."
          required
          maxLength={200}
          value={name}
          onChange={setName}
        />
        <fieldset className="stack tight">
          <legend>Begin with</legend>
          <div className="row">
            {purposes
              .filter((purpose) => purpose.scopes.every((scope) => holdsScope(held, scope)))
              .map((purpose) => (
                <button
                  key={purpose.label}
                  type="button"
                  className="button small"
                  onClick={() => setChosen(purpose.scopes)}
                >
                  {purpose.label}
                </button>
              ))}
          </div>
        </fieldset>
        <fieldset className="stack tight">
          <legend>Scopes</legend>
          <div className="form-grid" style={{ gap: 8 }}>
            {offered.map((scope) => (
              <Check
                key={scope}
                label={<code>{scope}</code>}
                hint={scopeWords[scope] ?? ''}
                checked={chosen.includes(scope)}
                disabled={!may(scope)}
                onChange={(isChosen) =>
                  setChosen(isChosen ? [...chosen, scope] : chosen.filter((each) => each !== scope))
                }
              />
            ))}
          </div>
        </fieldset>
        {chosen.includes('admin:*') || chosen.includes('keys:manage') ? (
          <p className="notice warn">
            This key can make other keys. Give it to no program that does not need that.
          </p>
        ) : null}
        <Select
          label="Ends"
          param="expires_at"
          value={days}
          onChange={setDays}
          options={[
            ['', 'Never'],
            ['30', 'In 30 days'],
            ['90', 'In 90 days'],
            ['365', 'In a year'],
          ]}
        />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Create" isBusy={create.isPending || chosen.length === 0} />
      </Form>
    </Dialog>
  );
}

function NewKeyDialog({ made, onClose }: { readonly made: NewApiKey; onClose(): void }): ReactNode {
  const [isKept, setKept] = useState(false);
  return (
    <Dialog title={`Key for ${made.name}`} onClose={onClose} className="wide" isLocked={!isKept}>
      <p className="notice warn">Copy the key now. Only its hash is kept, and nobody can show it again.</p>
      <Secret label="API key" text={made.key ?? ''} />
      <Id id={made.key_id} what="key id" />
      <Check label="I have stored it in a safe place" checked={isKept} onChange={setKept} />
      <div className="actions">
        <button type="button" className="button primary" disabled={!isKept} onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}

function RollDialog({ apiKey, onClose }: { readonly apiKey: ApiKey; onClose(): void }): ReactNode {
  const [overlap, setOverlap] = useState('86400');
  const roll = useAction({
    run: () => api.apiKeys.roll(apiKey.key_id, { overlap_s: Number(overlap) }),
    changes: ['api-keys'],
  });
  if (roll.data !== undefined) return <NewKeyDialog made={roll.data} onClose={onClose} />;
  return (
    <Dialog title={`Roll ${apiKey.name}`} onClose={onClose}>
      <p>
        Makes a new key with the same name and scopes. The old one goes on working for the time that you
        choose.
      </p>
      <Form error={roll.error} onSubmit={() => roll.mutate(undefined)}>
        <Select
          label="The old key ends"
          param="overlap_s"
          value={overlap}
          onChange={setOverlap}
          options={[
            ['0', 'At once'],
            ['3600', 'In an hour'],
            ['86400', 'In a day'],
            ['604800', 'In a week'],
          ]}
        />
        {roll.error === null ? null : <Problem error={roll.error} />}
        <DialogActions onCancel={onClose} submit="Roll" isBusy={roll.isPending} />
      </Form>
    </Dialog>
  );
}

function DeleteDialog({ apiKey, onClose }: { readonly apiKey: ApiKey; onClose(): void }): ReactNode {
  const remove = useAction({
    run: () => api.apiKeys.delete(apiKey.key_id),
    changes: ['api-keys'],
    done: 'Key deleted. It works nowhere any more.',
    onDone: onClose,
  });
  return (
    <Dialog title={`Delete ${apiKey.name}?`} onClose={onClose}>
      <p>
        Whatever uses it fails at once. It was last used <Ago at={apiKey.last_used_at} />. To replace it
        without a gap, roll it instead.{' '}
        <Link to="/audit" search={{ actor: apiKey.key_id }}>
          What it changed
        </Link>
      </p>
      <Form error={remove.error} onSubmit={() => remove.mutate(undefined)}>
        {remove.error === null ? null : <Problem error={remove.error} />}
        <DialogActions onCancel={onClose} submit="Delete" isBusy={remove.isPending} isDanger />
      </Form>
    </Dialog>
  );
}
