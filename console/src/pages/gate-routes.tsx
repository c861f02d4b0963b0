import { type ReactNode, useState } from 'react';
import { api, type GateWithStats, tagOf } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { GuideLink } from '../ui/guide-link.tsx';
import { Card, Problem } from '../ui/page.tsx';

type Route = NonNullable<GateWithStats['routes']>[number];

/** One row of the form, as text. `id` stays with a row while others move around it. */
interface Draft {
  readonly id: number;
  readonly methods: string;
  readonly path: string;
  readonly permission: string;
  readonly amount: string;
}

/** As many as a gate takes (contract §15). */
const routesMost = 256;

const draftOf = (route: Route, id: number): Draft => ({
  id,
  methods: (route.methods ?? []).join(' '),
  path: route.path,
  permission: route.permission_key,
  amount: typeof route.amount_usd === 'number' ? String(route.amount_usd) : '',
});

const routeOf = ({ methods, path, permission, amount }: Draft): Route => {
  const named = methods
    .toUpperCase()
    .split(/[\s,]+/)
    .filter((each) => each !== '');
  return {
    ...(named.length === 0 ? {} : { methods: named }),
    path: path.trim(),
    permission_key: permission.trim(),
    ...(amount.trim() === '' ? {} : { amount_usd: Number(amount) }),
  };
};

/**
 * Which permission a method and a path need, for a proxy that names none. The first route that fits counts,
 * so rows can be moved.
 */
export function RoutesTab({ gate }: { readonly gate: GateWithStats }): ReactNode {
  const { may } = useSession();
  const mayChange = may('gates:update');
  const [rows, setRows] = useState(() => (gate.routes ?? []).map(draftOf));
  const [nextId, setNextId] = useState(rows.length);
  // The gate as the form began with it: a change of another person meanwhile is not overwritten.
  const [begun, setBegun] = useState<object>(gate);
  const save = useAction({
    run: () => {
      const ifMatch = tagOf(begun);
      const routes = rows.map(routeOf);
      return api.gates.update(gate.gate_id, { routes }, ifMatch === undefined ? {} : { ifMatch });
    },
    changes: ['gates'],
    done: 'Routes saved.',
    onDone: setBegun,
  });
  const change = (id: number, to: Partial<Draft>) =>
    setRows(rows.map((row) => (row.id === id ? { ...row, ...to } : row)));
  const moveUp = (place: number) =>
    setRows(rows.toSpliced(place - 1, 2, ...rows.slice(place - 1, place + 1).toReversed()));
  const add = () => {
    setRows([...rows, { id: nextId, methods: '', path: '/', permission: '', amount: '' }]);
    setNextId(nextId + 1);
  };
  return (
    <Card title="Routes">
      <p className="soft">
        A proxy asks with a method and a path. The first route that fits names the permission; a request that
        fits none is blocked. <GuideLink page="integrations/proxies">Proxies in the guide</GuideLink>
      </p>
      <Form error={save.error} onSubmit={() => save.mutate(undefined)}>
        <ol className="stack">
          {rows.map((row, place) => (
            <li key={row.id} className="route">
              <fieldset className="form-grid" disabled={!mayChange}>
                <legend>Route {place + 1}</legend>
                <TextField
                  label="Methods"
                  param={`routes.${place}.methods`}
                  placeholder="all, or GET POST"
                  value={row.methods}
                  onChange={(methods) => change(row.id, { methods })}
                />
                <TextField
                  label="Path"
                  param={`routes.${place}.path`}
                  placeholder="/orders/:id"
                  required
                  value={row.path}
                  onChange={(path) => change(row.id, { path })}
                />
                <TextField
                  label="Permission"
                  param={`routes.${place}.permission_key`}
                  placeholder="orders:create"
                  required
                  value={row.permission}
                  onChange={(permission) => change(row.id, { permission })}
                />
                <TextField
                  label="Amount, USD"
                  param={`routes.${place}.amount_usd`}
                  type="number"
                  min={0}
                  step="any"
                  placeholder="none"
                  value={row.amount}
                  onChange={(amount) => change(row.id, { amount })}
                />
              </fieldset>
              {mayChange ? (
                <div className="row">
                  <button
                    type="button"
                    className="button small"
                    disabled={place === 0}
                    aria-label={`Move route ${place + 1} up`}
                    onClick={() => moveUp(place)}
                  >
                    Up
                  </button>
                  <button
                    type="button"
                    className="button small danger"
                    aria-label={`Remove route ${place + 1}`}
                    onClick={() => setRows(rows.filter(({ id }) => id !== row.id))}
                  >
                    Remove
                  </button>
                </div>
              ) : null}
            </li>
          ))}
        </ol>
        {rows.length === 0 ? <p className="soft">No routes: a proxy has to name the permission.</p> : null}
        {save.error === null ? null : <Problem error={save.error} />}
        {mayChange ? (
          <div className="actions">
            <button type="button" className="button" disabled={rows.length >= routesMost} onClick={add}>
              Add a route
            </button>
            <button type="submit" className="button primary" disabled={save.isPending}>
              Save the routes
            </button>
          </div>
        ) : null}
      </Form>
    </Card>
  );
}
