import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type Issuer, type IssuerCreation } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge, Tier } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextArea, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

export default function IssuersPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const source = useCountedList<Issuer>(['issuers', 'list'], (page) => api.issuers.list(page));
  const [changed, setChanged] = useState<Issuer | null>(null);
  const [tried, setTried] = useState<Issuer | null>(null);
  const create = may('issuers:create') ? (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Create an issuer
    </button>
  ) : null;
  return (
    <>
      <PageHead title="Issuers" actions={create}>
        In whose name passports are issued, and the providers whose own tokens are passports here. Gates of
        other accounts may trust an issuer of yours by its id.
      </PageHead>
      <DataTable
        label="Issuers"
        source={source}
        empty={
          <Empty title="No issuers yet" action={create}>
            The first one is made when you issue a passport.
          </Empty>
        }
        columns={[
          {
            head: 'Issuer',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <span>{row.name}</span>
                <code>{row.issuer_id}</code>
              </div>
            ),
          },
          {
            head: 'Type',
            width: '90px',
            isWideOnly: true,
            cell: (row) => row.federation?.type ?? 'own',
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          { head: 'Tier', width: '56px', isWideOnly: true, cell: (row) => <Tier tier={row.trust_tier} /> },
          {
            head: 'Passports',
            width: '90px',
            isNumber: true,
            isWideOnly: true,
            cell: (row) => count(row.passport_count),
          },
          {
            head: 'Active',
            width: '70px',
            isNumber: true,
            isWideOnly: true,
            cell: (row) => count(row.active_passports),
          },
          {
            head: 'Last',
            width: '110px',
            isWideOnly: true,
            cell: (row) => <Ago at={row.last_passport_issued_at} />,
          },
          {
            head: 'Actions',
            width: '160px',
            cell: (row) => (
              <div className="actions">
                {row.federation === null ? null : (
                  <button
                    type="button"
                    className="button small"
                    aria-label={`Try a token of ${row.name}`}
                    onClick={() => setTried(row)}
                  >
                    Try
                  </button>
                )}
                {may('issuers:update') ? (
                  <button
                    type="button"
                    className="button small"
                    aria-label={`Change ${row.name}`}
                    onClick={() => setChanged(row)}
                  >
                    Change
                  </button>
                ) : null}
              </div>
            ),
          },
        ]}
      />
      {search['new'] === '1' ? <CreateDialog onClose={() => set({ new: undefined })} /> : null}
      {tried === null ? null : <TryDialog issuer={tried} onClose={() => setTried(null)} />}
      {changed === null ? null : <ChangeDialog issuer={changed} onClose={() => setChanged(null)} />}
    </>
  );
}

/** The members of `federation` that people fill in; the rest of it is JSON. */
interface Provider {
  readonly type: string;
  readonly issuer: string;
  readonly audience: string;
  readonly keys: string;
  readonly more: string;
}

const noProvider: Provider = { type: '', issuer: '', audience: '', keys: '', more: '' };

/** Throws where the rest is no JSON object. */
function federationOf({
  type,
  issuer,
  audience,
  keys,
  more,
}: Provider): NonNullable<IssuerCreation['federation']> {
  const rest: unknown = more.trim() === '' ? {} : JSON.parse(more);
  const keyText = keys.trim();
  const source =
    keyText === '' ? {} : keyText.startsWith('{') ? { jwks: JSON.parse(keyText) } : { jwks_uri: keyText };
  const audiences = audience
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
  const federation = { type, issuer: issuer.trim(), audiences, ...source, ...(rest as object) };
  return federation as unknown as NonNullable<IssuerCreation['federation']>;
}

const moreExample = `{
  "claims": { "agent_id": "/sub", "permissions": "/roles", "owner": "/email" },
  "permission_map": { "buyer": ["orders:create"] }
}`;

function CreateDialog({ onClose }: { onClose(): void }): ReactNode {
  const [name, setName] = useState('');
  const [domain, setDomain] = useState('');
  const [tier, setTier] = useState('L3');
  const [wallet, setWallet] = useState('');
  const [provider, setProvider] = useState(noProvider);
  const create = useAction({
    run: async () =>
      api.issuers.create({
        name: name.trim(),
        trust_tier: tier as 'L1' | 'L2' | 'L3',
        ...(domain.trim() === '' ? {} : { domain: domain.trim() }),
        ...(wallet.trim() === '' ? {} : { wallet_id: wallet.trim() }),
        ...(provider.type === '' ? {} : { federation: federationOf(provider) }),
      }),
    changes: ['issuers'],
    done: 'Issuer created.',
    onDone: onClose,
  });
  return (
    <Dialog title="Create an issuer" onClose={onClose}>
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <Select
          label="Tokens"
          param="federation"
          hint="Whose tokens are the passports of this issuer."
          value={provider.type}
          onChange={(type) => setProvider({ ...provider, type })}
          options={[
            ['', 'Issued here'],
            ['oidc', 'OpenID Connect provider'],
            ['jwks', 'Other JWTs, by their keys'],
            ['jwt-svid', 'SPIFFE JWT-SVIDs'],
          ]}
        />
        {provider.type === '' ? (
          <TextField
            label="Domain"
            param="domain"
            hint="Optional. Nobody verifies it."
            placeholder="example.com"
            value={domain}
            onChange={setDomain}
          />
        ) : (
          <ProviderFields provider={provider} onChange={setProvider} />
        )}
        <Select
          label="Highest trust tier"
          param="trust_tier"
          hint="Its passports cannot have a higher one."
          value={tier}
          onChange={setTier}
          options={[
            ['L1', 'L1'],
            ['L2', 'L2'],
            ['L3', 'L3'],
          ]}
        />
        <WalletField wallet={wallet} onChange={setWallet} />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Create" isBusy={create.isPending} />
      </Form>
    </Dialog>
  );
}

function WalletField({
  wallet,
  onChange,
}: {
  readonly wallet: string;
  onChange(wallet: string): void;
}): ReactNode {
  return (
    <TextField
      label="Wallet"
      param="wallet_id"
      hint="Optional. What pays for its new passports."
      placeholder="wal_…"
      value={wallet}
      onChange={onChange}
    />
  );
}

function ProviderFields({
  provider,
  onChange,
}: {
  readonly provider: Provider;
  onChange(provider: Provider): void;
}): ReactNode {
  const isSvid = provider.type === 'jwt-svid';
  return (
    <>
      <TextField
        label={isSvid ? 'Trust domain' : 'Issuer'}
        param="federation.issuer"
        hint={isSvid ? 'Its SPIFFE IDs begin with it.' : 'Exactly as its tokens name it in iss.'}
        placeholder={isSvid ? 'spiffe://example.org' : 'https://login.example.com'}
        required
        value={provider.issuer}
        onChange={(issuer) => onChange({ ...provider, issuer })}
      />
      <TextField
        label="Audiences"
        param="federation.audiences"
        hint="What its tokens for your gates have in aud; several with commas."
        placeholder="agent-gates"
        required
        value={provider.audience}
        onChange={(audience) => onChange({ ...provider, audience })}
      />
      <TextArea
        label="Keys"
        param="federation.jwks_uri"
        hint="Their address, or a JSON key set. Empty for OpenID Connect: its metadata says."
        isCode
        rows={2}
        value={provider.keys}
        onChange={(keys) => onChange({ ...provider, keys })}
      />
      <TextArea
        label="Claims and permissions"
        param="federation.claims"
        hint={`JSON, such as ${moreExample.replaceAll(/\s+/g, ' ')}`}
        isCode
        rows={4}
        value={provider.more}
        onChange={(more) => onChange({ ...provider, more })}
      />
    </>
  );
}

/** What a token would become, as soon as it is pasted. It leaves this page only for the answer. */
function TryDialog({ issuer, onClose }: { readonly issuer: Issuer; onClose(): void }): ReactNode {
  const [token, setToken] = useState('');
  const [gate, setGate] = useState('');
  const at = gate.trim() === '' ? {} : { gate_id: gate.trim() };
  const { data, error } = useQuery({
    queryKey: ['issuers', 'try', issuer.issuer_id, token, gate],
    queryFn: () => api.issuers.tryToken(issuer.issuer_id, { token: token.trim(), ...at }),
    enabled: token.trim() !== '',
    gcTime: 0,
    retry: false,
  });
  return (
    <Dialog title={`Try a token of ${issuer.name}`} onClose={onClose}>
      <TextArea
        label="Token"
        param="token"
        hint="It is neither stored nor recorded."
        isCode
        rows={4}
        value={token}
        onChange={setToken}
      />
      <TextField
        label="Gate"
        param="gate_id"
        hint="Optional: says what this gate makes of it, too."
        value={gate}
        onChange={setGate}
      />
      {error === null ? null : <Problem error={error} />}
      {data === undefined || token.trim() === '' ? null : (
        <>
          <p className={data.reason === null ? 'notice' : 'notice warn'} role="status">
            {data.passport === null
              ? `No passport: ${data.reason}.`
              : `${data.reason === null ? '' : `${data.passport.status === 'active' ? 'Refused by the gate' : 'Blocked everywhere'}: ${data.reason}. `}A passport of ${data.passport.agent_id}, tier ${data.passport.trust_tier}, for ${
                  data.passport.permissions.join(', ') || 'no permission'
                }.`}
          </p>
          <dl className="facts">
            {data.steps.map((step) => (
              <div key={`${step.claim} ${step.becomes}`}>
                <dt>
                  <code>{step.claim}</code>
                </dt>
                <dd>
                  {step.value === null ? null : <code>{step.value}</code>} {step.becomes}
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </Dialog>
  );
}

function ChangeDialog({ issuer, onClose }: { readonly issuer: Issuer; onClose(): void }): ReactNode {
  const [name, setName] = useState(issuer.name);
  const [status, setStatus] = useState<string>(issuer.status);
  const [wallet, setWallet] = useState(issuer.wallet_id ?? '');
  const save = useAction({
    run: () =>
      api.issuers.update(issuer.issuer_id, {
        name: name.trim(),
        status: status === 'suspended' ? 'suspended' : 'active',
        wallet_id: wallet.trim() === '' ? null : wallet.trim(),
      }),
    changes: ['issuers'],
    done: 'Saved.',
    onDone: onClose,
  });
  return (
    <Dialog title={`Change ${issuer.name}`} onClose={onClose}>
      <Form error={save.error} onSubmit={() => save.mutate(undefined)}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <Select
          label="Status"
          param="status"
          value={status}
          onChange={setStatus}
          options={[
            ['active', 'Active'],
            ['suspended', 'Suspended'],
          ]}
        />
        {status === 'suspended' && issuer.status === 'active' ? (
          <p className="notice warn">
            Its {count(issuer.active_passports)} active passports are blocked everywhere until it is active
            again.{' '}
            <Link to="/passports" search={{ status: 'active' }}>
              Look at the active passports
            </Link>
          </p>
        ) : null}
        <WalletField wallet={wallet} onChange={setWallet} />
        {save.error === null ? null : <Problem error={save.error} />}
        <DialogActions
          onCancel={onClose}
          submit="Save"
          isBusy={save.isPending}
          isDanger={status === 'suspended'}
        />
      </Form>
    </Dialog>
  );
}
