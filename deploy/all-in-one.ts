import { resolve } from 'node:path';
import { type RunningControlPlane, startControlPlane } from '../control-plane/main.ts';
import { concretePort } from '../shared/runtime/free-port.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { givenSetting } from '../shared/runtime/setting-source.ts';
import { Wrong } from '../shared/runtime/setting-values.ts';
import { originOf, type SettingValues } from '../shared/runtime/settings.ts';
import { teardown } from '../shared/runtime/teardown.ts';
import { tellWhenSlow } from '../shared/runtime/tell-when-slow.ts';
import { type RunningSidecar, startSidecar } from '../sidecar/main.ts';
import { describeFirstOwner } from './first-owner.ts';
import { printPhase } from './print-phase.ts';
import type { Running } from './run-until-signal.ts';

/**
 * Control plane and one sidecar in this process: the sidecar listens to the control plane's own bus and
 * connects with a key that is made for it. Without DATABASE_URL the database is embedded too. Prints where
 * everything is once the sidecar can decide. Throws, with everything stopped again, once the signal is
 * aborted.
 */
export async function startAllInOne(
  given: SettingValues,
  extras: { readonly logger: Logger; readonly signal: AbortSignal },
): Promise<Running> {
  const { logger } = extras;
  const onPhase = printPhase(process.stdout);
  // The control plane tells the addresses of gates before the sidecar listens.
  const sidecarPort = await concretePort({ host: given.SIDECAR_HOST, port: given.SIDECAR_PORT });
  const settings = { ...given, SIDECAR_PORT: sidecarPort };
  const started = teardown(logger);
  try {
    const controlPlane = await startControlPlane(settings, {
      ...extras,
      onPhase,
      logger: logger.child({ program: 'control-plane' }),
    });
    started.add('control plane', () => controlPlane.close());
    extras.signal.throwIfAborted();
    onPhase('starting the sidecar');
    const sidecarSettings = {
      ...settings,
      CONTROL_PLANE_URL: controlPlane.origin,
      SIDECAR_API_KEY: await controlPlane.sidecarKey(),
    };
    const sidecar = await startSidecar(sidecarSettings, {
      logger: logger.child({ program: 'sidecar' }),
      bus: controlPlane.bus,
    });
    started.add('sidecar', () => sidecar.close());
    await firstState(sidecar, extras);
    process.stdout.write(welcome(settings, controlPlane));
    return {
      startDraining: () => {
        sidecar.startDraining();
        controlPlane.startDraining();
      },
      close: () => started.run(),
    };
  } catch (error) {
    await started.run();
    throw error;
  }
}

/**
 * What is printed then is pasted at once, and a sidecar that listens may still be loading its state. Rejects
 * once the signal is aborted.
 */
async function firstState(
  { ready }: Pick<RunningSidecar, 'ready'>,
  { signal, logger }: { readonly signal: AbortSignal; readonly logger: Logger },
): Promise<void> {
  // A signal that was aborted before tells nobody any more.
  signal.throwIfAborted();
  const aborted = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  await tellWhenSlow(Promise.race([ready, aborted]), (seconds) =>
    logger.warn({ seconds }, 'the sidecar has no state to decide on yet; its /readyz says why'),
  );
  signal.throwIfAborted();
}

/** For the person who has just started it: where things are, and a first decision to paste into a shell. */
function welcome(settings: SettingValues, controlPlane: RunningControlPlane): string {
  const sidecar = originOf({ host: settings.SIDECAR_HOST, port: settings.SIDECAR_PORT });
  const { adminKeyFile, firstOwnerLink, relocation } = controlPlane;
  const key = whereTheKeyIs(adminKeyFile, settings);
  return `
agent-trust is ready.

  control plane  ${controlPlane.origin}
  console        ${controlPlane.origin}/console
  sidecar        ${sidecar}
  data           ${resolve(settings.DATA_DIR)}
  admin key      ${key.description}
${firstOwnerLink === null ? '' : `  first owner    ${describeFirstOwner(firstOwnerLink, process.stdout)}\n`}${relocation === null ? '' : `\n  ${relocation}\n`}
To paste into a shell, for your gates, and for a passport, a gate and a first decision:

curl -sS ${controlPlane.origin}/v1/gates -H "Authorization: Bearer ${key.words}"

${firstDecision({ controlPlane: controlPlane.origin, sidecar, key: key.words })}

Ctrl-C stops everything; the next start finds its data again.
`;
}

/** `words`: what stands for the key between double quotes in a shell; never the key itself. */
function whereTheKeyIs(file: string | null, settings: SettingValues): { description: string; words: string } {
  if (file !== null) return { description: `in ${file}`, words: `$(cat ${quote(file)})` };
  const given = givenSetting('ADMIN_API_KEY', process.env, { isSecret: true });
  if (settings.ADMIN_API_KEY !== null && given !== null && !(given instanceof Wrong)) {
    return given.file === null
      ? { description: `the value of ${given.variable}`, words: `$${given.variable}` }
      : { description: `in ${given.file}`, words: `$(cat ${quote(given.file)})` };
  }
  return { description: 'the one in use since an earlier start', words: '<your API key>' };
}

/**
 * Issues a passport, makes a gate, asks the sidecar. Needs nothing but curl and sed, and may be pasted again.
 */
function firstDecision(at: { controlPlane: string; sidecar: string; key: string }): string {
  return `KEY="${at.key}"
post() { curl -sS "$1" -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d "$2"; }
field() { sed 's/.*"'"$1"'":"\\([^"]*\\)".*/\\1/'; }
PASSPORT=$(post ${at.controlPlane}/v1/passports '{"agent_id":"agent-'$(date +%s)-$$'","permissions":["orders:create"]}' | field jwt)
GATE=$(post ${at.controlPlane}/v1/gates '{"name":"Orders","trust_level":"L1","constraints":{"spend_limits":{"per_transaction_usd":100}}}' | field gate_id)
post ${at.sidecar}/v1/gates/$GATE/check '{"passport":"'$PASSPORT'","request":{"permission_key":"orders:create","amount":25}}'`;
}

/** For a POSIX shell. */
const quote = (text: string): string =>
  /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
