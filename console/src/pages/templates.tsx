import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type GateConstraints, type Template } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextArea, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { useNameFilter } from '../ui/name-filter.tsx';
import { Card, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';

export default function TemplatesPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const named = useNameFilter('A part of it');
  const source = useCountedList<Template>(['templates', 'list', named.part], (page) =>
    api.templates.list({ ...page, ...named.query }),
  );
  return (
    <>
      <PageHead
        title="Templates"
        actions={
          may('templates:create') ? (
            <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
              Create a template
            </button>
          ) : undefined
        }
      >
        Policies to begin a gate with. A gate keeps a copy, so later changes leave it alone.
      </PageHead>
      {named.field}
      {source.isPending ? <Waiting what="templates" /> : null}
      {source.error === null ? null : <Problem error={source.error} onRetry={() => source.refetch()} />}
      {source.isPending || source.rows.length > 0 ? null : named.orNone(null)}
      <div className="columns">
        {source.rows.map((template) => (
          <Card
            key={template.template_id}
            title={template.name}
            actions={template.built_in ? <span className="badge">built in</span> : undefined}
          >
            {template.description === null ? null : <p className="soft">{template.description}</p>}
            <ul className="stack tight">
              {policyInWords(template.trust_level ?? 'chosen with the gate', template.constraints).map(
                (sentence) => (
                  <li key={sentence}>{sentence}</li>
                ),
              )}
            </ul>
            {may('gates:create') ? (
              <div>
                <Link to="/gates" search={{ new: '1', template: template.template_id }} className="button">
                  Create a gate<span className="sr-only"> with {template.name}</span>
                </Link>
              </div>
            ) : null}
          </Card>
        ))}
      </div>
      {source.hasNextPage ? (
        <div>
          <button type="button" className="button" onClick={() => source.fetchNextPage()}>
            Show more
          </button>
        </div>
      ) : null}
      {search['new'] === '1' ? <CreateDialog onClose={() => set({ new: undefined })} /> : null}
    </>
  );
}

function CreateDialog({ onClose }: { onClose(): void }): ReactNode {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [level, setLevel] = useState('');
  const [json, setJson] = useState('{\n  "spend_limits": { "daily_usd": 100 }\n}');
  const [fault, setFault] = useState<string | null>(null);
  const create = useAction({
    run: (constraints: GateConstraints) =>
      api.templates.create({
        name: name.trim(),
        constraints,
        ...(description.trim() === '' ? {} : { description: description.trim() }),
        ...(level === '' ? {} : { trust_level: level as 'L1' | 'L2' | 'L3' }),
      }),
    changes: ['templates'],
    done: 'Template created.',
    onDone: onClose,
  });
  const submit = () => {
    try {
      setFault(null);
      create.mutate(JSON.parse(json));
    } catch (error) {
      setFault(error instanceof Error ? error.message : 'This is not JSON.');
    }
  };
  return (
    <Dialog title="Create a template" onClose={onClose} className="wide">
      <Form error={create.error} onSubmit={submit}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <TextArea
          label="Description"
          param="description"
          rows={2}
          value={description}
          onChange={setDescription}
        />
        <Select
          label="Trust level"
          param="trust_level"
          value={level}
          onChange={setLevel}
          options={[
            ['', 'Chosen with the gate'],
            ['L1', 'L1'],
            ['L2', 'L2'],
            ['L3', 'L3'],
          ]}
        />
        <TextArea
          label="Policy as JSON"
          param="constraints"
          hint="The easiest way: build it at a gate under Policy, and copy its JSON."
          isCode
          value={json}
          onChange={setJson}
          fault={fault}
        />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Create" isBusy={create.isPending} />
      </Form>
    </Dialog>
  );
}
