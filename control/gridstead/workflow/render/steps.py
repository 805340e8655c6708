# SPDX-License-Identifier: Apache-2.0
"""Steps and their order. The script has one function for each step, which calls nested steps.

A function returns the exit code of the step. Nothing depends on errexit of bash.
``templates/control.sh`` and the other templates run lists of functions.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gridstead.domain.supervisor.submission import MAX_SCRIPT_BYTES
from gridstead.errors import InvalidInput
from gridstead.workflow.render.container import containers, image_numbers, login_numbers
from gridstead.workflow.render.context import RenderContext, all_steps
from gridstead.workflow.render.network import has_namespaces, has_virtual_networks, tunnel_files
from gridstead.workflow.render.run import run_function
from gridstead.workflow.render.shell_text import fill, quote, too_large
from gridstead.workflow.schema import ForRange, ResolvedUse, Step, StepFor, StepUse, Workflow

# Timeouts of a step that does not start. Unit: seconds.
RETRY_S = {
    # One call of srun. An srun that waits while slurmctld restarts is not woken up afterwards.
    "srun_timeout": 5,
    # All calls of srun. A step waits for its resources, for example because nodes are busy.
    "resource_timeout": 60,
    # All calls of srun if slurmctld has restarted. A node that could not report the end of another
    # step, and so the release of its resources, reports it again after a minute.
    "total_timeout": 180,
}

# The templates of shell functions, in the order of the script.
HELPERS = (
    "control.sh",
    "start.sh",
    "condition.sh",
    "handlers.sh",
    "branch.sh",
    "parallel.sh",
    "launch.sh",
    "module.sh",
    "forward_signals.sh",
    "container.sh",
    "container_task.sh",
    "network.sh",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps as shell text.

    Attributes:
        functions: The functions of the steps.
        call: The command that runs the steps in order.
    """

    functions: str
    call: str


def render_steps(workflow: Workflow, *, cache: str) -> Steps:
    """Return the functions of all steps, and the command that runs the job."""
    all_containers = containers(workflow)
    place = RenderContext(
        workflow=workflow,
        cache=cache,
        errors=any(step.catch or step.finally_ for step in all_steps(workflow.steps)),
        images=image_numbers(all_containers),
        logins=login_numbers(all_containers),
        tunnels=tunnel_files(workflow),
    )
    return _list(workflow.steps, place)


def helpers(workflow: Workflow, *, bore: str) -> str:
    """Return the shell functions that the steps of this workflow need."""
    needed = _needed_templates(workflow)
    text = ""
    for name in HELPERS:
        if name in needed:
            text += fill(name, bore=quote(bore), **RETRY_S)
    return text


def _needed_templates(workflow: Workflow) -> set[str]:
    needed = {"control.sh"}
    for step in all_steps(workflow.steps):
        needed |= _needed_by_step(step)
    if workflow.continuous_output_sync or has_virtual_networks(workflow):
        needed.add("branch.sh")
    if has_namespaces(workflow):
        needed |= {"forward_signals.sh", "network.sh"}
    return needed


def _needed_by_step(step: Step) -> set[str]:
    """Return the templates that a step needs, without those of its nested steps."""
    needed = set()
    if step.run:
        needed.add("start.sh")
        if step.run.container:
            needed |= {"forward_signals.sh", "container.sh", "container_task.sh"}
    if step.if_ is not None:
        needed.add("condition.sh")
    if step.catch or step.finally_:
        needed.add("handlers.sh")
    if step.for_ and step.for_.parallel:
        needed |= {"branch.sh", "parallel.sh"}
    if step.launch:
        needed |= {"branch.sh", "launch.sh"}
    if step.use:
        needed.add("module.sh")
    return needed


def _list(steps: tuple[Step, ...], place: RenderContext, *names: str) -> Steps:
    functions, calls, launched = "", [], []
    inside = replace(place, handles=place.handles.new_child())
    for number, step in enumerate(steps, 1):
        step_place = inside.step(number, *names)
        functions += _step(step, step_place)
        # A small workflow can produce a huge script, so the size is checked before the next step.
        if len(functions) > MAX_SCRIPT_BYTES:
            raise too_large("the script has", len(functions), MAX_SCRIPT_BYTES)
        calls.append(f"step_{step_place.number}")
        if step.launch:
            launched.append(f"{step_place.number}:{step.launch.signal_on_parent_step_exit}")
            inside.handles[(step.launch.handle_name or "").lower()] = step_place.number
    order = " ".join(calls)
    call = f"in_order {order}"
    if launched:
        call = f"in_order_with_launches '{' '.join(launched)}' {order}"
    return Steps(functions=functions, call=call)


def _step(step: Step, place: RenderContext) -> str:
    """Return a step's functions: its body, its handlers, and its conditions."""
    function = f"step_{place.number}"
    is_handled = bool(step.catch or step.finally_)
    is_guarded = bool(step.depends_on or step.if_ is not None)
    inner = function
    if step.launch:
        inner = f"{function}_launched"
    elif is_guarded:
        inner = f"{function}_unguarded"
    text = _handled(step, inner, place) if is_handled else _body(step, inner, place)
    if step.launch:
        start = f"{function}_start" if is_guarded else function
        text += fill("launching.sh", function=start, number=place.number, launched=inner)
        inner = start
    if is_guarded:
        text += _guarded(step, inner, place)
    name = f": {step.name}" if step.name else ""
    return f"\n# Step {place.title}{name}\n{text}"


def _guarded(step: Step, inner: str, place: RenderContext) -> str:
    function = f"step_{place.number}"
    waits = "".join(
        f"  await {place.handles[handle.lower()]} || return\n" for handle in step.depends_on
    )
    if step.if_ is None:
        return fill("guarded.sh", function=function, waits=waits, inner=inner)
    script = f"[[ {step.if_} ]] && exit 10; exit 11"
    condition = fill(
        "condition_function.sh",
        function=function,
        outer_variables=place.outer_variables,
        script=quote(script),
    )
    call = f"run_if {quote(place.title)} {function}_if {inner}"
    return condition + fill("guarded.sh", function=function, waits=waits, inner=call)


def _handled(step: Step, function: str, place: RenderContext) -> str:
    body = f"step_{place.number}_body"
    text = _body(step, body, place)
    inside = _background(place, step) if step.launch else place
    catch_part = finally_part = ""
    if step.catch:
        catch = _list(step.catch, inside, "catch")
        text += catch.functions
        catch_part = fill("catch.sh", call=catch.call)
    if step.finally_:
        last = _list(step.finally_, inside, "finally")
        text += last.functions
        finally_part = fill("finally.sh", call=last.call)
    handled = fill(
        "handled.sh", function=function, body=body, catch=catch_part, finally_=finally_part
    )
    return f"{text}\n{handled}"


def _body(step: Step, function: str, place: RenderContext) -> str:
    if step.run:
        return run_function(function, step.name or f"step-{'.'.join(place.parts)}", step.run, place)
    if step.for_:
        return _loop(step.for_, function, place)
    if step.launch:
        return _group(step.launch.steps, function, _background(place, step))
    if step.use:
        return _module(step.use, function, place)
    if step.steps:
        return _group(step.steps, function, place)
    return fill("group.sh", function=function, call=":")


def _group(steps: tuple[Step, ...], function: str, place: RenderContext) -> str:
    inside = _list(steps, place)
    return f"{inside.functions}\n{fill('group.sh', function=function, call=inside.call)}"


def _module(use: StepUse, function: str, place: RenderContext) -> str:
    if not isinstance(use, ResolvedUse):
        raise InvalidInput(f"cannot render the module {use.source}", detail="it was not fetched")
    outer = {name: variable for name, variable in place.variables.items() if name not in use.inputs}
    module_place = replace(place, variables=outer, handles=ChainMap(), in_module=True)
    inside = _list(use.module.steps, module_place, "module")
    inner = f"step_{place.number}_module"
    outputs = " ".join(output.key for output in use.module.outputs)
    words = [quote(use.export_env_as or ""), quote(outputs)]
    words += [quote(f"{name}={value}") for name, value in use.inputs.items()]
    return (
        f"{inside.functions}\n"
        + fill("group.sh", function=inner, call=inside.call)
        + fill("group.sh", function=function, call=f"in_module {inner} {' '.join(words)}")
    )


def _loop(loop: StepFor, function: str, place: RenderContext) -> str:
    variable = f"value_{place.number}"
    if loop.range:
        name, items = "index", ""
        head = _number_loop(loop.range, variable)
    else:
        values = f"items_{place.number}"
        name, items = "item", f" {values}=({' '.join(map(quote, loop.items or ()))})"
        head = f'for {variable} in "${{{values}[@]}}"'
    inside = _list(loop.steps, _inside(place, {name: variable}, parallel=loop.parallel))
    template = "for_parallel.sh" if loop.parallel else "for.sh"
    text = fill(
        template, function=function, variable=variable, items=items, head=head, call=inside.call
    )
    return f"{inside.functions}\n{text}"


def _number_loop(for_range: ForRange, variable: str) -> str:
    numbers = for_range.numbers()
    start, stop, step = numbers.start, numbers.stop, numbers.step
    sign = "<" if step > 0 else ">"
    return f"for (({variable} = {start}; {variable} {sign} {stop}; {variable} += {step}))"


def _inside(place: RenderContext, variables: Mapping[str, str], *, parallel: bool) -> RenderContext:
    """Return the place of the steps in a loop. A parallel loop cannot wait for outer handles."""
    return replace(
        place,
        variables={**place.variables, **variables},
        handles=ChainMap() if parallel else place.handles,
    )


def _background(place: RenderContext, step: Step) -> RenderContext:
    assert step.launch, "only launched steps run in the background"
    return replace(
        place, handles=ChainMap(), signals=place.signals | {step.launch.signal_on_parent_step_exit}
    )
