import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type NewWebhook, type Webhook } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Secret } from '../ui/copy.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { useNameFilter } from '../ui/name-filter.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

export type WebhookEvent = Webhook['events'][number];
export type WebhookFormat = Webhook['format'];
const formats: readonly (readonly [WebhookFormat, string])[] = [
  ['standard', 'Standard: event, timestamp and data'],
  ['cloudevents', 'CloudEvents 1.0: for brokers and functions'],
];
const webhookEvents: readonly (readonly [WebhookEvent, string])[] = [
  ['passport.verified', 'a request was permitted'],
  ['passport.denied', 'a request was blocked'],
  ['passport.revoked', 'a passport was revoked'],
  ['gate.created', 'a gate was created'],
  ['shadow.ended', 'the shadow of a gate ended before its time'],
  ['spend_limit.approaching', 'a limit on money is nearly used up'],
  ['approval.requested', 'a request waits for a person'],
  ['approval.resolved', 'a request was approved, denied, or its time is over'],
  ['mcp_pin.changed', 'a tool of an MCP server waits for a person'],
  ['history.regressed', 'the database lacks what was in force (operator)'],
];

export function EventChoice({
  chosen,
  onChange,
}: {
  readonly chosen: readonly WebhookEvent[];
  onChange(events: readonly WebhookEvent[]): void;
}): ReactNode {
  return (
    <fieldset className="stack tight">
      <legend>Events</legend>
      {webhookEvents.map(([event, meaning]) => (
        <Check
          key={event}
          label={<code>{event}</code>}
          hint={meaning}
          checked={chosen.includes(event)}
          onChange={(is) => onChange(is ? [...chosen, event] : chosen.filter((each) => each !== event))}
        />
      ))}
    </fieldset>
  );
}

export default function WebhooksPage(): ReactNode {
  const { search, set } = useAddress();
  const named = useNameFilter('A part of URL or description');
  const source = useCountedList<Webhook>(['webhooks', 'list', named.part], (page) =>
    api.webhooks.list({ ...page, ...named.query }),
  );
  const create = (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Add an endpoint
    </button>
  );
  return (
    <>
      <PageHead title="Webhooks" actions={create}>
        Tell your own programs what happens here. Deliveries are signed and repeated for days.
      </PageHead>
      {named.field}
      <DataTable
        label="Webhooks"
        source={source}
        empty={named.orNone(
          <Empty title="No endpoints" action={create}>
            Add the address of a program that wants to know of revocations, approvals or blocked requests.
          </Empty>,
        )}
        columns={[
          {
            head: 'Endpoint',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <Link to={`/webhooks/${row.webhook_id}`}>{row.url ?? 'Fetched by a program'}</Link>
                <span>{row.description ?? row.webhook_id}</span>
              </div>
            ),
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          {
            head: 'Events',
            width: 'minmax(0, 2fr)',
            isWideOnly: true,
            cell: (row) => <span title={row.events.join(', ')}>{row.events.join(', ')}</span>,
          },
          {
            head: 'Failing since',
            width: '120px',
            isWideOnly: true,
            cell: (row) => <Ago at={row.failing_since} otherwise="" />,
          },
        ]}
      />
      {search['new'] === '1' ? <CreateDialog onClose={() => set({ new: undefined })} /> : null}
    </>
  );
}

function CreateDialog({ onClose }: { onClose(): void }): ReactNode {
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [events, setEvents] = useState<readonly WebhookEvent[]>(['approval.requested', 'passport.revoked']);
  const [format, setFormat] = useState<string>('standard');
  const create = useAction({
    run: () =>
      api.webhooks.create({
        url: url.trim(),
        events,
        format: format as WebhookFormat,
        ...(description.trim() === '' ? {} : { description: description.trim() }),
      }),
    changes: ['webhooks'],
  });
  if (create.data !== undefined) return <SecretDialog made={create.data} onClose={onClose} />;
  return (
    <Dialog title="Add an endpoint" onClose={onClose}>
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        <TextField
          label="Address"
          param="url"
          type="url"
          placeholder="https://example.com/hooks"
          hint="https, and reachable from the internet."
          required
          value={url}
          onChange={setUrl}
        />
        <TextField
          label="Description"
          param="description"
          hint="Optional."
          value={description}
          onChange={setDescription}
        />
        <EventChoice chosen={events} onChange={setEvents} />
        <FormatChoice chosen={format} onChange={setFormat} />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Add" isBusy={create.isPending || events.length === 0} />
      </Form>
    </Dialog>
  );
}

export function FormatChoice({
  chosen,
  onChange,
}: {
  readonly chosen: string;
  onChange(format: string): void;
}): ReactNode {
  return <Select label="Format" value={chosen} onChange={onChange} options={formats} />;
}

export function SecretDialog({
  made,
  onClose,
}: {
  readonly made: Pick<NewWebhook, 'secret'>;
  onClose(): void;
}): ReactNode {
  const [isKept, setKept] = useState(false);
  return (
    <Dialog title="Secret of the endpoint" onClose={onClose} isLocked={!isKept}>
      <p className="notice warn">Copy it now: it cannot be shown again.</p>
      <Secret label="Signing secret" text={made.secret ?? ''}>
        Your program checks with it that a delivery comes from here (Standard Webhooks).
      </Secret>
      <Check label="I have stored it in a safe place" checked={isKept} onChange={setKept} />
      <div className="actions">
        <button type="button" className="button primary" disabled={!isKept} onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
