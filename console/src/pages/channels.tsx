import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type Channel, type ChannelCreation } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { words } from '../ui/format.ts';
import { useNameFilter } from '../ui/name-filter.tsx';
import { GateName } from '../ui/names.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';
import { SecretDialog } from './webhooks.tsx';

type Kind = ChannelCreation['kind'];

export const kindWords: Readonly<Record<Kind, string>> = {
  slack: 'Slack',
  email: 'E-mail',
  webhook: 'Webhook',
};

/** How long an approval waits before a channel is told. */
export const delays: readonly (readonly [value: string, label: string])[] = [
  ['0', 'At once'],
  ['60', 'After a minute'],
  ['300', 'After 5 minutes'],
  ['600', 'After 10 minutes'],
  ['1800', 'After half an hour'],
  ['3600', 'After an hour'],
];

export const delayWords = (seconds: number): string =>
  delays.find(([value]) => value === String(seconds))?.[1] ?? `After ${seconds} s`;

export default function ChannelsPage(): ReactNode {
  const { search, set } = useAddress();
  const named = useNameFilter('A part of it');
  const source = useCountedList<Channel>(['channels', 'list', named.part], (page) =>
    api.channels.list({ ...page, ...named.query }),
  );
  const create = (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Add a channel
    </button>
  );
  return (
    <>
      <PageHead title="Channels" actions={create}>
        Tell people of requests that wait for them, in Slack, by e-mail or by a webhook. Messages carry a link
        to the request; no answer can be given from a message.
      </PageHead>
      {named.field}
      <DataTable
        label="Channels"
        source={source}
        empty={named.orNone(
          <Empty title="No channels" action={create}>
            Without one, a request waits until a person looks at the list of approvals.
          </Empty>,
        )}
        columns={[
          {
            head: 'Channel',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <Link to={`/channels/${row.channel_id}`}>{row.name}</Link>
                <span>{`${kindWords[row.kind]}: ${row.target}`}</span>
              </div>
            ),
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          {
            head: 'Of',
            width: 'minmax(0, 1fr)',
            isWideOnly: true,
            cell: (row) =>
              row.gate_id === null ? <span className="soft">all gates</span> : <GateName id={row.gate_id} />,
          },
          { head: 'When', width: '150px', isWideOnly: true, cell: (row) => delayWords(row.after_s) },
          {
            head: 'Last failure',
            width: 'minmax(0, 1fr)',
            isWideOnly: true,
            cell: ({ last_error: error }) =>
              error === null ? (
                ''
              ) : (
                <span title={error.detail}>
                  {words(error.code)}, <Ago at={error.at} />
                </span>
              ),
          },
        ]}
      />
      {search['new'] === '1' ? <CreateDialog onClose={() => set({ new: undefined })} /> : null}
    </>
  );
}

const targets: Readonly<
  Record<Kind, { readonly label: string; readonly type: string; readonly hint: string }>
> = {
  slack: {
    label: 'Address of the incoming webhook',
    type: 'url',
    hint: 'Of Slack, or of a service that takes the same. It is a secret: it is not shown again.',
  },
  email: { label: 'E-mail address', type: 'email', hint: 'One person, or a list.' },
  webhook: {
    label: 'Address',
    type: 'url',
    hint: 'https, and reachable from the internet. It gets the signed event as JSON.',
  },
};

/** The field for where a channel's messages go. */
export function TargetField({
  kind,
  value,
  onChange,
}: {
  readonly kind: Kind;
  readonly value: string;
  onChange(value: string): void;
}): ReactNode {
  const { label, type, hint } = targets[kind];
  return (
    <TextField
      label={label}
      param="target"
      type={type}
      hint={hint}
      required
      value={value}
      onChange={onChange}
    />
  );
}

function CreateDialog({ onClose }: { onClose(): void }): ReactNode {
  const { search } = useAddress();
  const [kind, setKind] = useState<Kind>('slack');
  const [name, setName] = useState('');
  const [target, setTarget] = useState('');
  const [gate, setGate] = useState(search['gate'] ?? '');
  const [after, setAfter] = useState('0');
  const [tellsEnd, setTellsEnd] = useState(true);
  const create = useAction({
    run: () =>
      api.channels.create({
        name: name.trim(),
        kind,
        target: target.trim(),
        ...(gate.trim() === '' ? {} : { gate_id: gate.trim() }),
        after_s: Number(after),
        events: tellsEnd ? ['approval.requested', 'approval.resolved'] : ['approval.requested'],
      }),
    changes: ['channels'],
    done: 'Added. Send a test to see that it works.',
    onDone: (made) => {
      if (made.secret === undefined) onClose();
    },
  });
  if (create.data?.secret !== undefined) return <SecretDialog made={create.data} onClose={onClose} />;
  return (
    <Dialog title="Add a channel" onClose={onClose}>
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        <Select
          label="Kind"
          param="kind"
          value={kind}
          onChange={(next) => setKind(next as Kind)}
          options={(['slack', 'email', 'webhook'] as const).map((each) => [each, kindWords[each]])}
        />
        <TextField label="Name" param="name" required value={name} onChange={setName} />
        <TargetField kind={kind} value={target} onChange={setTarget} />
        <TextField
          label="Gate"
          param="gate_id"
          placeholder="gate_…"
          hint="Optional: only its approvals. Without one: those of all gates that have no channels of their own."
          value={gate}
          onChange={setGate}
        />
        <Select
          label="Told"
          param="after_s"
          hint="Later than others, it is told only of what still waits then."
          value={after}
          onChange={setAfter}
          options={delays}
        />
        <Check label="Also tell how it ended" checked={tellsEnd} onChange={setTellsEnd} />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Add" isBusy={create.isPending} />
      </Form>
    </Dialog>
  );
}
