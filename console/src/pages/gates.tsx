import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useAddress, useGo } from '../api/address.ts';
import { api, type GateListItem } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Tier } from '../ui/badge.tsx';
import { type Column, DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextArea, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { useNameFilter } from '../ui/name-filter.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';
import { RowLink } from '../ui/row-link.tsx';
import { Ago } from '../ui/time.tsx';

const columns: readonly Column<GateListItem>[] = [
  {
    head: 'Gate',
    width: 'minmax(0, 2.5fr)',
    cell: (row) => (
      <div className="two-lines">
        <RowLink to={`/gates/${row.gate_id}`}>{row.name}</RowLink>
        <span>{row.description ?? row.gate_id}</span>
      </div>
    ),
  },
  { head: 'Level', width: '60px', cell: (row) => <Tier tier={row.trust_level} /> },
  {
    head: 'Decisions',
    width: '100px',
    isNumber: true,
    isWideOnly: true,
    cell: (row) => count(row.request_count),
  },
  {
    head: 'Permitted',
    width: '100px',
    isNumber: true,
    isWideOnly: true,
    cell: (row) => count(row.permit_count),
  },
  { head: 'Blocked', width: '84px', isNumber: true, cell: (row) => count(row.block_count) },
  { head: 'Changed', width: '120px', isWideOnly: true, cell: (row) => <Ago at={row.updated_at} /> },
];

export default function GatesPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const named = useNameFilter('A part of it');
  const source = useCountedList<GateListItem>(['gates', 'list', named.part], (page) =>
    api.gates.list({ ...page, ...named.query }),
  );
  const create = may('gates:create') ? (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Create a gate
    </button>
  ) : null;
  return (
    <>
      <PageHead title="Gates" actions={create}>
        What agents must pass before you serve them{source.total === null ? '' : `: ${count(source.total)}`}.
      </PageHead>
      {named.field}
      <DataTable
        label="Gates"
        source={source}
        empty={named.orNone(
          <Empty title="No gates yet" action={create}>
            A gate says which agents may do what, for how much. Your service asks it before it answers an
            agent.
          </Empty>,
        )}
        columns={columns}
      />
      {search['new'] === '1' ? (
        <CreateDialog
          templateId={search['template'] ?? ''}
          onClose={() => set({ new: undefined, template: undefined })}
        />
      ) : null}
    </>
  );
}

function CreateDialog({ templateId, onClose }: { readonly templateId: string; onClose(): void }): ReactNode {
  const { may } = useSession();
  const go = useGo();
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [template, setTemplate] = useState(templateId);
  const [level, setLevel] = useState('L1');
  const templates = useQuery({
    queryKey: ['templates', 'choice'],
    queryFn: () => api.templates.list({ limit: 200 }),
    enabled: may('templates:read'),
  });
  const chosen = templates.data?.items.find(({ template_id }) => template_id === template);
  const create = useAction({
    run: () =>
      api.gates.create({
        name: name.trim(),
        ...(description.trim() === '' ? {} : { description: description.trim() }),
        ...(template === '' ? {} : { template_id: template }),
        ...(chosen?.trust_level ? {} : { trust_level: level as 'L1' | 'L2' | 'L3' }),
      }),
    changes: ['gates'],
    done: 'Gate created.',
    onDone: ({ gate_id }) => go(`/gates/${gate_id}?tab=policy`),
  });
  return (
    <Dialog title="Create a gate" onClose={onClose}>
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <TextArea
          label="Description"
          param="description"
          hint="Optional."
          rows={2}
          value={description}
          onChange={setDescription}
        />
        <Select
          label="Begin with"
          param="template_id"
          value={template}
          onChange={setTemplate}
          options={[
            ['', 'No limits'],
            ...(templates.data?.items ?? []).map(
              ({ template_id, name: text }) => [template_id, text] as const,
            ),
          ]}
        />
        {chosen === undefined ? null : (
          <ul className="notice small">
            {policyInWords(chosen.trust_level ?? level, chosen.constraints).map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        )}
        {chosen?.trust_level ? null : (
          <Select
            label="Trust level"
            param="trust_level"
            hint="The lowest trust tier that a passport needs here."
            value={level}
            onChange={setLevel}
            options={[
              ['L1', 'L1: every valid passport'],
              ['L2', 'L2: known agents'],
              ['L3', 'L3: highest trust'],
            ]}
          />
        )}
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Create" isBusy={create.isPending} />
      </Form>
    </Dialog>
  );
}
