// The parts that most pages need. The modules of the kit import each other directly, never this one.
export { call } from './api.js';
export { Badge, Shape } from './badge.js';
export { CodeBlock, CopyButton } from './copy-button.js';
export { ActDialog, ConfirmDialog, Dialog } from './dialog.js';
export { ErrorPanel, Loaded } from './error-panel.js';
export { ActionButton, Field, Problem, startPressingOnce, useAction } from './form.js';
export { html, render, useEffect, useState } from './html.js';
export { PageHead, setting } from './page.js';
export { forget, refresh, startOver, usePages, useQueries, useQuery } from './query.js';
export { go, startRouter, usePlace, withParams } from './router.js';
export { accountName, canDevelop, isOwner, isPersonal, session, setSession } from './session.js';
export { Skeleton, Table, useWide } from './table.js';
export { t } from './texts.js';
export { Countdown, Time, dayName, dayOf, fromField, oneDay, span, toField, useNow } from './time.js';
export { Toasts, toast } from './toast.js';
export { LongUrl, PersonName, ShortId, figure, many, plain, roleName, say } from './words.js';
