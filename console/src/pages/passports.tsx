import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type IssuedPassport, type PassportListItem } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge, Tier } from '../ui/badge.tsx';
import { Id, Secret } from '../ui/copy.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextArea, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { proofChoices, proofDemandOf } from '../ui/proof-choice.ts';
import { RowLink } from '../ui/row-link.tsx';
import { Ago } from '../ui/time.tsx';
import { WalletField } from '../ui/wallet-field.tsx';

const statuses = ['active', 'suspended', 'revoked', 'expired'] as const;
const tiers = ['L1', 'L2', 'L3'] as const;

export default function PassportsPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const status = statuses.find((each) => each === search['status']);
  const tier = tiers.find((each) => each === search['trust_tier']);
  const source = useCountedList<PassportListItem>(['passports', 'list', status, tier], (page) =>
    api.passports.list({
      ...page,
      ...(status === undefined ? {} : { status }),
      ...(tier === undefined ? {} : { trust_tier: tier }),
    }),
  );
  const isFiltered = status !== undefined || tier !== undefined;
  const issue = may('passports:issue') ? (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Issue a passport
    </button>
  ) : null;
  return (
    <>
      <PageHead title="Passports" actions={issue}>
        Signed identities of agents{source.total === null ? '' : `: ${count(source.total)}`}.
      </PageHead>
      <div className="filters">
        <Select
          label="Status"
          value={status ?? ''}
          onChange={(next) => set({ status: next })}
          options={[['', 'All'], ...statuses.map((each) => [each, each] as const)]}
        />
        <Select
          label="Trust tier"
          value={tier ?? ''}
          onChange={(next) => set({ trust_tier: next })}
          options={[['', 'All'], ...tiers.map((each) => [each, each] as const)]}
        />
      </div>
      <DataTable
        label="Passports"
        source={source}
        empty={
          isFiltered ? (
            <Empty title="None match" action={<Link to="/passports">Show all</Link>}>
              No passport has this status and tier.
            </Empty>
          ) : (
            <Empty title="No passports yet" action={issue}>
              An agent needs a passport before a gate lets it do anything.
            </Empty>
          )
        }
        columns={[
          {
            head: 'Agent',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <RowLink to={`/passports/${row.passport_id}`}>{row.agent_name}</RowLink>
                <span>{row.agent_id}</span>
              </div>
            ),
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          { head: 'Tier', width: '56px', isWideOnly: true, cell: (row) => <Tier tier={row.trust_tier} /> },
          {
            head: 'May do',
            width: 'minmax(0, 2fr)',
            isWideOnly: true,
            cell: (row) => <code title={row.permissions.join(', ')}>{row.permissions.join(', ')}</code>,
          },
          { head: 'Issued', width: '110px', isWideOnly: true, cell: (row) => <Ago at={row.issued_at} /> },
          { head: 'Ends', width: '110px', isWideOnly: true, cell: (row) => <Ago at={row.expires_at} /> },
        ]}
      />
      {search['new'] === '1' ? <IssueDialog onClose={() => set({ new: undefined })} /> : null}
    </>
  );
}

const listOf = (text: string): string[] => text.split(/[\s,]+/).filter((each) => each !== '');

function IssueDialog({ onClose }: { onClose(): void }): ReactNode {
  const [agentId, setAgentId] = useState('');
  const [agentName, setAgentName] = useState('');
  const [permissions, setPermissions] = useState('');
  const [days, setDays] = useState('90');
  const [tier, setTier] = useState('L1');
  const [issuer, setIssuer] = useState('');
  const [proof, setProof] = useState('');
  const [wallet, setWallet] = useState('');
  const demand = proofDemandOf(proof);
  const { may } = useSession();
  const issuers = useQuery({
    queryKey: ['issuers', 'choice'],
    queryFn: () => api.issuers.list({ limit: 200 }),
    enabled: may('issuers:read'),
  });
  const issue = useAction({
    run: () =>
      api.passports.issue({
        agent_id: agentId.trim(),
        permissions: listOf(permissions),
        expires_in_days: Number(days),
        trust_tier: tiers.find((each) => each === tier) ?? 'L1',
        ...(agentName.trim() === '' ? {} : { agent_name: agentName.trim() }),
        ...(issuer === '' ? {} : { issuer_id: issuer }),
        ...(wallet.trim() === '' ? {} : { wallet_id: wallet.trim() }),
        ...(demand === null ? {} : { constraints: { proof_of_possession: demand } }),
      }),
    changes: ['passports', 'wallets'],
  });
  if (issue.data !== undefined) return <IssuedDialog issued={issue.data} onClose={onClose} />;
  return (
    <Dialog title="Issue a passport" onClose={onClose}>
      <Form error={issue.error} onSubmit={() => issue.mutate(undefined)}>
        <TextField
          label="Agent id"
          param="agent_id"
          hint="Your own identifier. An agent can have one active passport at a time."
          required
          maxLength={128}
          value={agentId}
          onChange={setAgentId}
        />
        <TextField
          label="Name"
          param="agent_name"
          hint="For people. Default: the agent id."
          maxLength={200}
          value={agentName}
          onChange={setAgentName}
        />
        <TextArea
          label="Permissions"
          param="permissions"
          hint="Such as orders:create, or orders:* for the whole area. Separate them by spaces or lines."
          rows={2}
          value={permissions}
          onChange={setPermissions}
        />
        <div className="form-grid">
          <TextField
            label="Valid for days"
            param="expires_in_days"
            type="number"
            min={1}
            max={3650}
            required
            value={days}
            onChange={setDays}
          />
          <Select
            label="Trust tier"
            param="trust_tier"
            value={tier}
            onChange={setTier}
            options={[
              ['L1', 'L1, lowest'],
              ['L2', 'L2'],
              ['L3', 'L3, highest'],
            ]}
          />
          {issuers.data === undefined || issuers.data.total < 2 ? null : (
            <Select
              label="Issuer"
              param="issuer_id"
              value={issuer}
              onChange={setIssuer}
              options={[
                ['', 'Default'],
                ...issuers.data.items.map(({ issuer_id, name }) => [issuer_id, name] as const),
              ]}
            />
          )}
        </div>
        {may('wallets:read') ? (
          <WalletField
            label="Wallet"
            param="wallet_id"
            hint="Optional. What it spends is taken from this wallet and from all above it."
            value={wallet}
            onChange={setWallet}
          />
        ) : null}
        <Select
          label="Proof that the agent holds its key"
          param="constraints.proof_of_possession"
          value={proof}
          onChange={setProof}
          options={proofChoices}
        />
        {issue.error === null ? null : <Problem error={issue.error} />}
        <DialogActions onCancel={onClose} submit="Issue" isBusy={issue.isPending} />
      </Form>
    </Dialog>
  );
}

/** The one moment at which the token and the private key can be seen. */
function IssuedDialog({ issued, onClose }: { readonly issued: IssuedPassport; onClose(): void }): ReactNode {
  const [isKept, setKept] = useState(false);
  return (
    <Dialog title={`Passport of ${issued.agent_name}`} onClose={onClose} className="wide" isLocked={!isKept}>
      <p className="notice warn">Copy both now. The service keeps neither, and nobody can show them again.</p>
      <Secret label="Passport token" text={issued.jwt}>
        The agent shows it with each request. Whoever has it can act as the agent.
      </Secret>
      {issued.private_key === undefined ? null : (
        <Secret label="Private key" text={issued.private_key}>
          Proves later that the agent is the one the passport was issued to.
        </Secret>
      )}
      <Id id={issued.passport_id} what="passport id" />
      <Check label="I have stored them in a safe place" checked={isKept} onChange={setKept} />
      <div className="actions">
        <button type="button" className="button primary" disabled={!isKept} onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
