# SPDX-License-Identifier: Apache-2.0
"""Steps and their order: one function of the script for each step, which calls those of the steps
in it.

A function returns the step's code; nothing depends on bash's errexit. ``templates/control.sh`` and
what stands beside it say how lists of functions run.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gridstead.domain.submission import MAX_SCRIPT_BYTES
from gridstead.errors import InvalidInput
from gridstead.workflow.render.container import access_numbers, containers, image_numbers
from gridstead.workflow.render.context import RenderContext, all_steps
from gridstead.workflow.render.network import has_namespaces, is_networked, tunnel_files
from gridstead.workflow.render.run import run_function
from gridstead.workflow.render.shell_text import fill, quote, too_large
from gridstead.workflow.schema import ForRange, ResolvedUse, Step, StepFor, StepUse, Workflow

# How long a step is asked for that waits for what it needs: what one node cannot give at all would
# never come. How long srun waits at a time: slurmctld does not wake one that came before its nodes
# did. How long a new slurmctld is given: a node that could not tell it the end of a step, which
# holds what the next one needs, tells it a minute later.
ASKING_S = {"patience": 60, "wait": 5, "most": 180}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps as text.

    Attributes:
        functions: Their functions.
        call: The command that runs them in order.
    """

    functions: str
    call: str


def render_steps(workflow: Workflow, *, cache: str) -> Steps:
    """Return the functions of all steps and the command that runs the job."""
    found = containers(workflow)
    place = RenderContext(
        workflow=workflow,
        cache=cache,
        errors=any(step.catch or step.finally_ for step in all_steps(workflow.steps)),
        images=image_numbers(found),
        accesses=access_numbers(found),
        tunnels=tunnel_files(workflow),
    )
    return _list(workflow.steps, place)


def helpers(workflow: Workflow, *, bore: str) -> str:
    """Return the functions that steps of this workflow need beside their own."""
    found = list(all_steps(workflow.steps))
    launches = any(step.launch for step in found)
    parallel = any(step.for_ and step.for_.parallel for step in found)
    in_containers = any(step.run and step.run.container for step in found)
    names = (
        ("control.sh", True),
        ("start.sh", any(step.run for step in found)),
        ("condition.sh", any(step.if_ is not None for step in found)),
        ("handlers.sh", any(step.catch or step.finally_ for step in found)),
        (
            "branch.sh",
            launches or parallel or workflow.continuous_output_sync or is_networked(workflow),
        ),
        ("parallel.sh", parallel),
        ("launch.sh", launches),
        ("module.sh", any(step.use for step in found)),
        ("passing_on.sh", in_containers or has_namespaces(workflow)),
        ("container.sh", in_containers),
        ("container_task.sh", in_containers),
        ("network.sh", has_namespaces(workflow)),
    )
    return "".join(fill(name, bore=quote(bore), **ASKING_S) for name, wanted in names if wanted)


def _list(steps: tuple[Step, ...], place: RenderContext, *names: str) -> Steps:
    functions, calls, launched = "", [], []
    inside = replace(place, handles=place.handles.new_child())
    for number, step in enumerate(steps, 1):
        entered = inside.step(number, *names)
        functions += _step(step, entered)
        if (
            len(functions) > MAX_SCRIPT_BYTES
        ):  # a small workflow can make so much that the rest must not be made
            raise too_large("its script", len(functions), MAX_SCRIPT_BYTES)
        calls.append(f"step_{entered.number}")
        if step.launch:
            launched.append(f"{entered.number}:{step.launch.signal_on_parent_step_exit}")
            inside.handles[(step.launch.handle_name or "").lower()] = entered.number
    order = " ".join(calls)
    return Steps(
        functions=functions,
        call=f"settled '{' '.join(launched)}' {order}" if launched else f"in_order {order}",
    )


def _step(step: Step, place: RenderContext) -> str:
    """Return a step's functions: what it does, around that what is done when it fails, and what
    comes before.
    """
    function = f"step_{place.number}"
    handled = bool(step.catch or step.finally_)
    guarded = bool(step.depends_on or step.if_ is not None)
    inner = (
        f"{function}_launched" if step.launch else f"{function}_unguarded" if guarded else function
    )
    text = _handled(step, inner, place) if handled else _body(step, inner, place)
    if step.launch:
        start = f"{function}_start" if guarded else function
        text += fill("launching.sh", function=start, number=place.number, launched=inner)
        inner = start
    if guarded:
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
        "holds.sh", function=function, surroundings=place.surroundings, script=quote(script)
    )
    call = f"when {quote(place.title)} {function}_if {inner}"
    return condition + fill("guarded.sh", function=function, waits=waits, inner=call)


def _handled(step: Step, function: str, place: RenderContext) -> str:
    body = f"step_{place.number}_body"
    text = _body(step, body, place)
    inside = _background(place, step) if step.launch else place
    catch = finally_ = Steps(functions="", call="")
    if step.catch:
        catch = _list(step.catch, inside, "catch")
    if step.finally_:
        finally_ = _list(step.finally_, inside, "finally")
    return (
        text
        + catch.functions
        + finally_.functions
        + "\n"
        + fill(
            "handled.sh",
            function=function,
            body=body,
            catch=fill("catch.sh", call=catch.call) if step.catch else "",
            finally_=fill("finally.sh", call=finally_.call) if step.finally_ else "",
        )
    )


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
    inside = _list(
        use.module.steps,
        replace(place, variables=outer, handles=ChainMap(), in_module=True),
        "module",
    )
    inner = f"step_{place.number}_module"
    outputs = " ".join(output.key for output in use.module.outputs)
    words = (
        quote(use.export_env_as or ""),
        quote(outputs),
        *(quote("=".join(pair)) for pair in use.inputs.items()),
    )
    return (
        f"{inside.functions}\n"
        + fill("group.sh", function=inner, call=inside.call)
        + fill("group.sh", function=function, call=f"in_module {inner} {' '.join(words)}")
    )


def _loop(loop: StepFor, function: str, place: RenderContext) -> str:
    variable = f"value_{place.number}"
    name = "index" if loop.range else "item"
    inside = _list(loop.steps, _inside(place, {name: variable}, parallel=loop.parallel))
    template = "for_parallel.sh" if loop.parallel else "for.sh"
    values = f"items_{place.number}"
    text = fill(
        template,
        function=function,
        variable=variable,
        items="" if loop.range else f" {values}=({' '.join(map(quote, loop.items or ()))})",
        head=_numbers(loop.range, variable)
        if loop.range
        else f'for {variable} in "${{{values}[@]}}"',
        call=inside.call,
    )
    return f"{inside.functions}\n{text}"


def _numbers(wanted: ForRange, variable: str) -> str:
    numbers = wanted.numbers()
    sign = "<" if numbers.step > 0 else ">"
    return f"for (({variable} = {numbers.start}; {variable} {sign} {numbers.stop}; {variable} += {numbers.step}))"


def _inside(place: RenderContext, variables: Mapping[str, str], *, parallel: bool) -> RenderContext:
    """Return the place in a loop; in a branch of its own nothing outside of it can be waited for."""
    return replace(
        place,
        variables={**place.variables, **variables},
        handles=ChainMap() if parallel else place.handles,
    )


def _background(place: RenderContext, step: Step) -> RenderContext:
    assert step.launch, "only a launch runs beside"
    return replace(
        place, handles=ChainMap(), signals=place.signals | {step.launch.signal_on_parent_step_exit}
    )
