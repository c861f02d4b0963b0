import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useId } from '../api/address.ts';
import { type Attestation, api } from '../api/client.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { microUsd, words } from '../ui/format.ts';
import { JsonView } from '../ui/json-view.tsx';
import { GateName, PassportName, WalletName } from '../ui/names.tsx';
import { Card, Facts, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { PermitOutcome } from './permit-outcome.tsx';
import { PolicyInForce } from './policy-in-force.tsx';
import { RecordChain } from './record-chain.tsx';
import { RecordFacts } from './record-facts.tsx';

/** How many records around one are shown of its chain. */
const shownOfChain = 20;

export default function AttestationPage(): ReactNode {
  const id = useId();
  const query = useQuery({ queryKey: ['attestations', 'one', id], queryFn: () => api.attestations.get(id) });
  const record = query.data;
  const chain = useQuery({
    queryKey: ['attestations', 'chain of', id],
    queryFn: () =>
      api.attestations.list({
        ...(record?.passport_id ? { passport_id: record.passport_id } : { gate_id: record?.gate_id ?? '' }),
        limit: shownOfChain,
        until: new Date(Date.parse(record?.timestamp ?? '') + 60_000).toISOString(),
      }),
    enabled: record !== undefined && (record.passport_id !== null || record.gate_id !== null),
  });
  if (query.isPending) return <Waiting what="the record" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const shown = query.data;
  const inChain = (chain.data?.attestations ?? []).filter(({ chain_id }) => chain_id === shown.chain_id);
  return (
    <>
      <PageHead
        title={`Record ${shown.sequence} of its chain`}
        above={{ to: '/attestations', label: 'Attestations' }}
      >
        <span className="row">
          <Badge value={shown.decision} />
          {shown.test ? <span className="badge">test</span> : null}
          {shown.reason === null ? null : words(shown.reason)}
          <Id id={shown.id} what="record id" />
        </span>
      </PageHead>
      <div className="columns">
        <Card title="Decision">
          <Facts
            items={[
              ['Agent', <PassportName key="agent" id={shown.passport_id} />],
              ['Gate', <GateName key="gate" id={shown.gate_id} />],
              ['Permission', <code key="permission">{shown.permission_key ?? 'none'}</code>],
              ['Amount', shown.amount_micro_usd === null ? 'none' : microUsd(shown.amount_micro_usd)],
              ['Decided', <Time key="at" at={shown.timestamp} />],
              ['By', <code key="by">{shown.source}</code>],
              ...(shown.trust_level ? [['Trust level', shown.trust_level] as const] : []),
              ...(shown.domain ? [['Domain', <code key="domain">{shown.domain}</code>] as const] : []),
              ...(shown.wallet_id
                ? [['Wallet', <WalletName key="wallet" id={shown.wallet_id} />] as const]
                : []),
              ...(shown.approval_id
                ? [['Approval', <code key="approval">{shown.approval_id}</code>] as const]
                : []),
              ...(typeof shown.state_age_ms === 'number'
                ? [['State of the sidecar', `${shown.state_age_ms} ms old`] as const]
                : []),
              ...(shown.conditions?.length
                ? [['Conditions not met', shown.conditions.join(', ')] as const]
                : []),
              ...(shown.shadow
                ? [['The shadow says', <Said key="shadow" shadow={shown.shadow} />] as const]
                : []),
              ['Checks', shown.constraints_evaluated.map(words).join(', ')],
              ...(shown.pii.length === 0
                ? []
                : [
                    [
                      'Personal data',
                      shown.pii.map(({ type, pointer }) => `${words(type)} at ${pointer}`).join(', '),
                    ] as const,
                  ]),
              ...(shown.refers_to
                ? [['Refers to', <code key="refers">{shown.refers_to}</code>] as const]
                : []),
            ]}
          />
        </Card>
        {shown.decision === 'PERMIT' && shown.resolution === null && !shown.test ? (
          <PermitOutcome id={shown.id} />
        ) : null}
        {shown.facts?.length ? <RecordFacts record={shown} /> : null}
        {shown.policy_hash && shown.gate_id ? (
          <PolicyInForce gateId={shown.gate_id} hash={shown.policy_hash} />
        ) : null}
        <Card title="Evidence">
          <Facts
            items={[
              ['Hash', <Id key="hash" id={shown.hash} what="hash" />],
              [
                'Record before',
                <code key="before">{shown.previous_attestation_hash ?? 'none: the chain begins here'}</code>,
              ],
              ...(shown.policy_hash
                ? [['Policy', <code key="policy">{shown.policy_hash}</code>] as const]
                : []),
              ['Request hash', <code key="request">{shown.request_hash}</code>],
              ['Signature', <code key="signature">{shown.signature}</code>],
              ['Signing key', <code key="key">{shown.signing_key_id}</code>],
            ]}
          />
          <Link to="/verify">Verify records without trusting this service</Link>
        </Card>
        {inChain.length === 0 ? null : (
          <Card title="In its chain">
            <RecordChain records={inChain} current={shown.id} />
          </Card>
        )}
        <Card title="JSON">
          <JsonView value={shown} />
        </Card>
      </div>
    </>
  );
}

/** What the policy that the gate tries would have decided. */
const Said = ({ shadow }: { readonly shadow: NonNullable<Attestation['shadow']> }): ReactNode => (
  <>
    {shadow.decision === null ? 'it cannot be known' : <Badge value={shadow.decision} />}{' '}
    {shadow.reason === null ? '' : words(shadow.reason)} {shadow.condition ?? ''}
  </>
);
