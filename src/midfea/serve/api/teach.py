"""/api/classes, /api/images, /api/train: the classes, their images, and the training."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Query, UploadFile
from fastapi.responses import Response
from pydantic import BaseModel, Field

from midfea.pictures.formats import media_type
from midfea.serve.api.body import JSON_BODY, MEGABYTE, form_body
from midfea.serve.api.downloads import FileResponse
from midfea.serve.api.services import AddressDep, Services, ServicesDep
from midfea.serve.errors import Refused
from midfea.serve.store import names
from midfea.serve.store.images import StoredImage
from midfea.serve.training.phases import TrainingSettings

router = APIRouter(tags=["teach"])
UPLOAD = form_body(64 * MEGABYTE)
FOR_EVER = "private, max-age=31536000, immutable"  # an id is the hash of the content

ClassQuery = Annotated[str, Query(alias="class", description="the name of a class")]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=1000)]


class ClassName(BaseModel):
    """The name of a class."""

    name: str


@router.post("/api/classes", status_code=201)
@JSON_BODY
async def add_class(services: ServicesDep, body: ClassName) -> dict[str, str | int]:
    """Make a class."""
    name = await services.run("write", services.workspace.changes.add_class, body.name)
    return {"name": name, "images": 0}


@router.patch("/api/classes/{name:path}")
@JSON_BODY
async def rename_class(services: ServicesDep, name: str, body: ClassName) -> dict[str, str]:
    """Rename a class."""
    return {
        "name": await services.run("write", services.workspace.changes.rename_class, name, body.name)
    }


@router.delete("/api/classes/{name:path}")
async def remove_class(services: ServicesDep, name: str, with_images: bool = False) -> dict[str, str]:
    """Remove a class; one that has images only with `with_images`."""
    await services.run("write", services.workspace.changes.remove_class, name, with_images)
    return {"removed": name}


class Label(BaseModel):
    """The class of an image, and whether a person has checked it; None leaves that as it is."""

    label: str = Field(alias="class")
    checked: bool | None = None


@router.get("/api/images")
async def list_images(
    services: ServicesDep, label: ClassQuery, offset: Offset = 0, limit: Limit = 100
) -> dict[str, Any]:
    """A page of a class's images, the newest first."""

    def read() -> dict[str, Any]:
        services.workspace.watch.refresh()
        images = services.workspace.images.of_class(label)
        page = images[offset : offset + limit]
        return {"total": len(images), "images": [image_json(image) for image in page]}

    return await services.run("read", read)


@router.post("/api/images")
@UPLOAD
async def add_images(
    services: ServicesDep,
    address: AddressDep,
    label: ClassQuery,
    files: Annotated[list[UploadFile], File()],
) -> dict[str, Any]:
    """Add images to a class, which is made if it is missing. Each is accepted or refused alone."""
    names.class_name(label)  # otherwise every file would be refused for it
    accepted, refused = [], []
    for file in files:
        name = file.filename or ""
        try:
            add = services.workspace.changes.add
            image = await services.decode(address, add, label, name, file.file)
            accepted.append(image_json(image))
        except Refused as error:
            refused.append({"name": name, "error": str(error)})
    return {"accepted": accepted, "refused": refused}


@router.patch("/api/images/{id}")
@JSON_BODY
async def move_image(services: ServicesDep, id: str, body: Label) -> dict[str, Any]:
    """Move an image to another class, or say that its class is right: then nobody is asked again."""

    def change() -> dict[str, Any]:
        image = services.workspace.changes.move(id, body.label)
        if body.checked is not None:
            services.workspace.changes.set_checked(id, body.checked)
        return image_json(image)

    return await services.run("write", change)


@router.delete("/api/images/{id}")
async def remove_image(services: ServicesDep, id: str) -> dict[str, str]:
    """Remove an image."""
    await services.run("write", services.workspace.changes.remove, id)
    return {"removed": id}


@router.get("/api/images/{id}/file")
async def image_file(services: ServicesDep, id: str) -> Response:
    """The image itself."""
    response = await services.run("read", _image_file, services, id)
    response.headers["cache-control"] = FOR_EVER
    return response


@router.get("/api/images/{id}/thumbnail")
async def image_thumbnail(services: ServicesDep, address: AddressDep, id: str) -> Response:
    """A thumbnail, WebP."""
    thumbnails = services.workspace.thumbnails
    content = await services.run("read", thumbnails.kept, id)
    if content is None:
        content = await services.decode(address, thumbnails.make, id)
    return Response(content, media_type="image/webp", headers={"cache-control": FOR_EVER})


@router.post("/api/train", status_code=202)
@JSON_BODY
async def start_training(services: ServicesDep, settings: TrainingSettings) -> dict[str, Any]:
    """Start to train on all images. `job` of the state says how far it is."""
    return (await services.run("make", services.trainer.start, settings)).json()


@router.delete("/api/train")
async def cancel_training(services: ServicesDep) -> dict[str, Any]:
    """Cancel the training; the model of a phase that has ended stays."""
    return (await services.run("write", services.trainer.cancel)).json()


def image_json(image: StoredImage) -> dict[str, str | int]:
    """An image of the workspace as JSON."""
    return {
        "id": image.id,
        "class": image.label,
        "name": image.name,
        "width": image.width,
        "height": image.height,
    }


def _image_file(services: Services, id: str) -> Response:
    image = services.workspace.images.find(id)
    return FileResponse(services.workspace.images.path(image), media_type(image.name))
